"""Interface of incremental decoding steps, implemented by a model's modules and by inference engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from ..nn.attention import Executor, Run
from ..nn.cross import CrossAttentionCache


class DecodingSteps(Protocol):
    """Incremental decoding with a snapshot of a model's weights."""

    def advance(
        self, input_ids: Tensor, position_ids: Tensor, runs: Sequence[Run], attending: Sequence[Executor]
    ) -> Tensor:
        """Encodes tokens with a causal model: float [tokens, hidden]; see `Transformer.advance`."""

    def grow(
        self, tokens: Tensor, positions: Tensor, attending: Sequence[Executor], memory: CrossAttentionCache
    ) -> Tensor:
        """Decodes one more target token of each row: float [rows, hidden]; see `Decoder.grow`."""

    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits: float32 [rows, vocab]. hidden: [rows, hidden]."""
