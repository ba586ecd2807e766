"""Selects the decoder for a model: with a key-value cache, or recurrent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ..model import Model
from .causal import CausalDecoder
from .recurrent import RecurrentDecoder
from .rules import Decoder


@runtime_checkable
class HasDecoder(Protocol):
    """A model that brings its own decoder, such as an exported graph."""

    def own_decoder(self, prompts: Sequence[Sequence[int]], window: int | None) -> Decoder:
        """prompts: ids of each row; window: context length in tokens, None for the model's maximum."""


def decoder_of(
    model: Model,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    *,
    use_cache: bool = True,
    window: int | None = None,
) -> Decoder:
    """prompts: ids of each row, at least one; see the decoders for the others. Recurrent decoders have no window."""
    if isinstance(model, HasDecoder):
        return model.own_decoder(prompts, window)
    if model.config.recurrent is not None:
        return RecurrentDecoder(model, prompts, use_cache=use_cache)
    return CausalDecoder(model, prompts, max_new_tokens, use_cache=use_cache, window=window)
