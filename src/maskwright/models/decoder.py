"""The Transformer decoder: layers of causal self-attention, cross-attention to the source, and feed-forward networks,
each with add and norm (Vaswani et al. 2017, section 3.1 and figure 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from ..data.batch import Batch
from ..nn.attention import Executor, Run
from ..nn.cross import CrossAttention, CrossAttentionCache, CrossAttentionExecutor, cross_attend, plan_pairs
from ..nn.layers import NORMS, dropout
from .config import ModelConfig
from .transformer import Layer, Transformer, executors


@dataclass(frozen=True)
class Decoded:
    """Output of the decoder for a pack of targets.

    hidden: float [tokens, hidden]; hidden_states: see `Encoded`; attentions, cross_attentions: per layer one [heads,
    length, length], or [heads, length, source length], per target; None unless requested.
    """

    hidden: Tensor
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[tuple[Tensor, ...], ...] | None = None
    cross_attentions: tuple[tuple[Tensor, ...], ...] | None = None


def decoder_config(config: ModelConfig) -> ModelConfig:
    """Returns the decoder's configuration as that of a causal network with its own layers and vocabulary."""
    layers, groups = config.num_decoder_layers, config.num_hidden_groups
    return replace(
        config,
        num_hidden_layers=layers,
        num_hidden_groups=None if groups is None else min(groups, layers),
        vocab_size=config.target_vocab_size,
        type_vocab_size=0,
        attention="causal",
        full_attention_every=0,
        pooler=False,
        num_decoder_layers=0,
        decoder_vocab_size=None,
        separate_directions=False,
        attention_score="none",
        input_feeding=False,
    )


class DecoderLayer(Layer):
    """A layer with cross-attention. cross_norm: layer norm after it, or before it in a pre-norm network."""

    def __init__(self, config: ModelConfig, index: int = 0) -> None:
        super().__init__(config, index)
        size = config.hidden_size
        self.cross = CrossAttention(size, config.num_attention_heads, config.attention_dropout, config.linear_bias)
        self.cross_norm = NORMS[config.norm_kind](size, config.layer_norm_eps, config.norm_bias)
        if config.shrink_residuals:
            for product in (self.attention.out, self.cross.out, self.ffn.down):
                product.spread = (3 * config.num_hidden_layers) ** -0.5

    def read(
        self,
        hidden: Tensor,
        runs: Sequence[Run],
        want_weights: bool,
        executor: Executor | None,
        across: CrossAttentionExecutor,
    ) -> tuple[Tensor, tuple[Tensor, ...] | None, tuple[Tensor, ...] | None]:
        """hidden: float [tokens, hidden], like the result; runs, executor: of the target; across: of the source.

        Also returns the weights of both attentions, if wanted.
        """
        attended, weights = self.attention(self._before(hidden), runs, want_weights, executor)
        hidden = self._attended(hidden, attended)
        seen, cross_weights = self.cross(self.cross_norm(hidden) if self.is_pre else hidden, across)
        hidden = hidden + dropout(seen, self.after_attention, self.training)
        return self._feed(hidden if self.is_pre else self.cross_norm(hidden)), weights, cross_weights


class Decoder(Transformer):
    """Embeddings and decoder layers. config: from `decoder_config`."""

    layer_type: ClassVar[type[Layer]] = DecoderLayer

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, with_pooler=False)

    @property
    def depths(self) -> list[DecoderLayer]:
        """The layers in order; a shared layer occurs more than once."""
        return [layer for layer in self.in_order if isinstance(layer, DecoderLayer)]

    def decode(
        self,
        target: Batch,
        memory: Tensor,
        source: Batch,
        dtype: torch.dtype,
        *,
        hidden_states: bool = False,
        attentions: bool = False,
    ) -> Decoded:
        """Decodes a pack of targets with their sources.

        memory: float [source tokens, hidden], encoder outputs of `source`, in the order of the targets.
        """
        heads = self.config.num_attention_heads
        groups = plan_pairs(tuple(target.lengths), tuple(source.lengths), heads, memory.device)
        across = partial(cross_attend, memory=memory, groups=groups, want_weights=attentions)
        attending = executors(self.config, target, dtype, self.relatives(dtype), self.training, None)
        hidden = self.embeddings(target.input_ids, target.position_ids, None, dtype)
        states, weights, cross = [], [], []
        for layer, executor in zip(self.depths, attending, strict=True):
            states.append(hidden)
            hidden, own, other = self.run(layer.read, hidden, target.runs, attentions, executor, across)
            weights.append(own or ())
            cross.append(other or ())
        hidden = self.finish(hidden)
        return Decoded(
            hidden,
            (*states, hidden) if hidden_states else None,
            tuple(weights) if attentions else None,
            tuple(cross) if attentions else None,
        )

    def grow(
        self,
        tokens: Tensor,
        positions: Tensor,
        attending: Sequence[Executor],
        memory: CrossAttentionCache,
        dtype: torch.dtype,
    ) -> Tensor:
        """Decodes one more token of each row: float [rows, hidden].

        tokens, positions: int64 [rows]; attending: per layer, attention over the previous tokens (nn/cache.py).
        """
        hidden = self.embeddings(tokens, positions, None, dtype)
        for depth, (layer, executor) in enumerate(zip(self.depths, attending, strict=True)):
            hidden, _, _ = layer.read(hidden, (), False, executor, partial(memory.attend_layer, depth=depth))
        return self.finish(hidden)

    def cache_sources(self, memory: Tensor, lengths: Sequence[int], dtype: torch.dtype) -> CrossAttentionCache:
        """Computes the keys and values of the sources, in `dtype`.

        memory: float [tokens, hidden]; lengths: of each source.
        """
        return CrossAttentionCache([(layer.cross, memory) for layer in self.depths], lengths, dtype)
