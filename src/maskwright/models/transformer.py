"""The one encoder stack: embeddings, then layers of attention and feed-forward, each with add and norm.

Works on packs: every matrix is [tokens, hidden]. Only attention asks where sequences begin and end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..data.batch import Batch
from ..nn.attention import Run, SelfAttention
from ..nn.dropout import dropout
from ..nn.embeddings import Embeddings
from ..nn.feed_forward import FeedForward
from ..nn.linear import LayerNorm, Linear
from .config import ModelConfig


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
        self.hidden_dropout = config.hidden_dropout

    def forward(
        self, hidden: Tensor, runs: Sequence[Run], want_weights: bool = False
    ) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """hidden: float [tokens, hidden]. Returns the same shape, and the attention weights if wanted."""
        attended, weights = self.attention(hidden, runs, want_weights)
        return self.add(hidden, attended), weights

    def add(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """What follows the attention: add and norm, feed-forward, add and norm. All [tokens, hidden]."""
        hidden = self.attention_norm(hidden + dropout(attended, self.hidden_dropout, self.training))
        hidden = self.ffn_norm(hidden + dropout(self.ffn(hidden), self.hidden_dropout, self.training))
        return hidden


class Transformer(nn.Module):
    """Embeddings, `num_hidden_layers` layers and, for heads that judge a whole sequence, the pooler."""

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
        )
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.pooler = Linear(config.hidden_size, config.hidden_size) if with_pooler else None

    def forward(
        self, batch: Batch, dtype: torch.dtype, *, hidden_states: bool = False, attentions: bool = False
    ) -> Encoded:
        """Encode a pack in `dtype`; see Encoded for what comes back."""
        hidden = self.embeddings(batch.input_ids, batch.position_ids, batch.token_type_ids, dtype)
        states, weights = [hidden], []
        for layer in self.layers:
            hidden, layer_weights = layer(hidden, batch.runs, attentions)
            weights.append(layer_weights)
            if hidden_states:
                states.append(hidden)
        return Encoded(hidden, tuple(states) if hidden_states else None, tuple(weights) if attentions else None)

    def pool(self, first: Tensor) -> Tensor:
        """tanh(W h + b) of each sequence's first token. first: [sequences, hidden], as is the result."""
        assert self.pooler is not None, "this encoder was built without a pooler"
        return torch.tanh(self.pooler(first))
