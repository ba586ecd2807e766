"""The one encoder stack: embeddings, then layers of attention and feed-forward, each with add and norm.

Works on packs: every matrix is [tokens, hidden]. Only attention asks where sequences begin and end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from ..data.batch import Batch
from ..nn.attention import Executor, Run, SelfAttention
from ..nn.dropout import dropout
from ..nn.embeddings import Embeddings
from ..nn.feed_forward import FeedForward
from ..nn.linear import LayerNorm, Linear
from ..nn.relative import RelativeBias, RelativePositions, attend_relative
from .config import NUM_BUCKETS, ModelConfig


@dataclass(frozen=True)
class Encoded:
    """What the encoder makes of a pack.

    hidden: float [tokens, hidden], the last layer; hidden_states: layers + 1 tensors of that shape, the
    embeddings first, or None; attentions: per layer one [heads, length, length] for each sequence, or None.
    """

    hidden: Tensor
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[tuple[Tensor, ...], ...] | None = None


class Layer(nn.Module):
    """x = norm(x + attention(x)), then x = norm(x + ffn(x)) (Vaswani et al. 2017, section 3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config.hidden_size, config.num_attention_heads, config.attention_dropout)
        self.attention_norm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.ffn = FeedForward(config.hidden_size, config.intermediate_size, config.hidden_act)
        self.ffn_norm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        rate, dropped = config.hidden_dropout, config.residual_dropout
        self.after_attention = rate if dropped in ("both", "attention") else 0.0
        self.after_ffn = rate if dropped in ("both", "ffn") else 0.0

    def forward(
        self,
        hidden: Tensor,
        runs: Sequence[Run],
        want_weights: bool = False,
        executor: Executor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """hidden: float [tokens, hidden]; runs, executor: as `SelfAttention` takes them.

        Returns the same shape, and the attention weights if wanted.
        """
        attended, weights = self.attention(hidden, runs, want_weights, executor)
        return self._add(hidden, attended), weights

    def look(
        self, tokens: Tensor, hidden: Tensor, relative: RelativePositions | None, distances: Tensor | None
    ) -> Tensor:
        """The same for tokens beside a sequence: they see it, nothing sees them.

        tokens: float [onlookers, hidden], as is the result; hidden: float [length, hidden], what the sequence
        brings into this layer; relative, distances: as `SelfAttention.look` takes them.
        """
        return self._add(tokens, self.attention.look(tokens, hidden, relative, distances))

    def _add(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """What follows the attention: add and norm, feed-forward, add and norm. All [tokens, hidden]."""
        hidden = self.attention_norm(hidden + dropout(attended, self.after_attention, self.training))
        hidden = self.ffn_norm(hidden + dropout(self.ffn(hidden), self.after_ffn, self.training))
        return hidden


class Transformer(nn.Module):
    """Embeddings, layers and, for heads that judge a whole sequence, the pooler.

    layers: the sets of weights, fewer than the network is deep where it shares them; `in_order` walks its depth.
    relative: what relative positions add in every layer, or None.
    """

    def __init__(self, config: ModelConfig, with_pooler: bool = True) -> None:
        super().__init__()
        self.embeddings = Embeddings(
            config.vocab_size,
            config.hidden_size,
            max_position_embeddings=config.max_position_embeddings,
            type_vocab_size=config.type_vocab_size,
            layer_norm_eps=config.layer_norm_eps,
            hidden_dropout=config.hidden_dropout,
            pad_token_id=config.pad_token_id,
            position_offset=config.position_offset,
            embedding_size=config.embedding_size,
        )
        rows = config.relative_buckets
        self.relative = RelativeBias(NUM_BUCKETS, config.num_attention_heads, num_rows=rows) if rows else None
        self.layer_groups = config.layer_groups
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_groups or config.num_hidden_layers))
        self.pooler = Linear(config.hidden_size, config.hidden_size) if with_pooler else None

    @property
    def in_order(self) -> Iterator[Layer]:
        """The layers as hidden states pass them; a shared one comes more than once."""
        for group in self.layer_groups:
            layer = self.layers[group]
            assert isinstance(layer, Layer)
            yield layer

    def forward(
        self, batch: Batch, dtype: torch.dtype, *, hidden_states: bool = False, attentions: bool = False
    ) -> Encoded:
        """Encode a pack in `dtype`; see Encoded for what comes back."""
        hidden = self.embeddings(batch.input_ids, batch.position_ids, batch.token_type_ids, dtype)
        executor = self._executor(batch)
        states, weights = [hidden], []
        for layer in self.in_order:
            hidden, layer_weights = layer(hidden, batch.runs, attentions, executor)
            weights.append(layer_weights)
            if hidden_states:
                states.append(hidden)
        return Encoded(hidden, tuple(states) if hidden_states else None, tuple(weights) if attentions else None)

    def pool(self, first: Tensor) -> Tensor:
        """tanh(W h + b) of each sequence's first token. first: [sequences, hidden], as is the result."""
        assert self.pooler is not None, "this encoder was built without a pooler"
        return torch.tanh(self.pooler(first))

    def _executor(self, batch: Batch) -> Executor | None:
        """What attends in every layer to this pack; None for plain attention."""
        if self.relative is None:
            return None
        return partial(attend_relative, relative=self.relative, positions=batch.places)
