"""The decoder stack: layers that attend to their own text from the left, then to the text that was read, then feed
forward, each with add and norm (Vaswani et al. 2017, section 3.1 and figure 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from ..data.batch import Batch
from ..nn.attention import Executor
from ..nn.cross import Across, CrossAttention, CrossMemory, attend_across, plan_pairs
from ..nn.dropout import dropout
from ..nn.linear import LayerNorm
from ..nn.runs import Run
from .attending import executors
from .config import ModelConfig
from .transformer import Layer, Transformer


@dataclass(frozen=True)
class Decoded:
    """What the decoder makes of a pack of targets.

    hidden: float [tokens, hidden]; hidden_states: as of `Encoded`; attentions, cross_attentions: per layer one [heads,
    length, length], or [heads, length, source length], for each target; None where they were not asked for.
    """

    hidden: Tensor
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[tuple[Tensor, ...], ...] | None = None
    cross_attentions: tuple[tuple[Tensor, ...], ...] | None = None


def decoder_config(config: ModelConfig) -> ModelConfig:
    """The decoder of an encoder-decoder as a network of its own: causal, with as many layers and its vocabulary."""
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
    """A layer with cross-attention between its two parts. cross_norm: behind it, or before it in a pre-norm network."""

    def __init__(self, config: ModelConfig, is_first: bool = False) -> None:
        super().__init__(config, is_first)
        size = config.hidden_size
        self.cross = CrossAttention(size, config.num_attention_heads, config.attention_dropout, config.linear_bias)
        self.cross_norm = LayerNorm(size, config.layer_norm_eps, config.norm_bias)
        if config.shrink_residuals:
            for product in (self.attention.out, self.cross.out, self.ffn.down):
                product.spread = (3 * config.num_hidden_layers) ** -0.5

    def read(
        self, hidden: Tensor, runs: Sequence[Run], want_weights: bool, executor: Executor | None, across: Across
    ) -> tuple[Tensor, tuple[Tensor, ...] | None, tuple[Tensor, ...] | None]:
        """hidden: float [tokens, hidden], as is the result; runs, executor: of the target; across: of the source.

        Returns the weights of both attentions too, if wanted.
        """
        attended, weights = self.attention(self._before(hidden), runs, want_weights, executor)
        hidden = self._attended(hidden, attended)
        seen, cross_weights = self.cross(self.cross_norm(hidden) if self.is_pre else hidden, across)
        hidden = hidden + dropout(seen, self.after_attention, self.training)
        return self._feed(hidden if self.is_pre else self.cross_norm(hidden)), weights, cross_weights


class Decoder(Transformer):
    """Embeddings and decoder layers. config: as `decoder_config` gives it."""

    layer_type: ClassVar[type[Layer]] = DecoderLayer

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, with_pooler=False)

    @property
    def depths(self) -> list[DecoderLayer]:
        """The layers as hidden states pass them."""
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
        """Read a pack of targets, each beside its source.

        memory: float [source tokens, hidden], what the encoder made of `source`, whose sequences stand in the order of
        the targets.
        """
        heads = self.config.num_attention_heads
        groups = plan_pairs(tuple(target.lengths), tuple(source.lengths), heads, memory.device)
        across = partial(attend_across, memory=memory, groups=groups, want_weights=attentions)
        attending = executors(self.config, target, dtype, self.relatives, self.training, None)
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
        memory: CrossMemory,
        dtype: torch.dtype,
    ) -> Tensor:
        """One more token of each row: float [rows, hidden].

        tokens, positions: int64 [rows]; attending: of each layer, executors that know what came before (nn/cache.py).
        """
        hidden = self.embeddings(tokens, positions, None, dtype)
        for depth, (layer, executor) in enumerate(zip(self.depths, attending, strict=True)):
            hidden, _, _ = layer.read(hidden, (), False, executor, partial(memory.look, depth=depth))
        return self.finish(hidden)

    def remember(self, memory: Tensor, lengths: Sequence[int], dtype: torch.dtype) -> CrossMemory:
        """Keys and values of the texts that were read, once, in `dtype`.

        memory: float [tokens, hidden]; lengths: of each text.
        """
        return CrossMemory([(layer.cross, memory) for layer in self.depths], lengths, dtype)
