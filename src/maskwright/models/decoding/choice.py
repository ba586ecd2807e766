"""Selects the decoder for a model: with a key-value cache, or recurrent."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Model
from .causal import CausalDecoder
from .recurrent import RecurrentDecoder
from .rules import Decoder


def decoder_of(
    model: Model,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    *,
    use_cache: bool = True,
    window: int | None = None,
) -> Decoder:
    """prompts: ids of each row, at least one; see the decoders for the others. Recurrent decoders have no window."""
    own = model.own_decoder(prompts, window)
    if own is not None:
        return own
    if model.config.recurrent is not None:
        return RecurrentDecoder(model, prompts, use_cache=use_cache)
    return CausalDecoder(model, prompts, max_new_tokens, use_cache=use_cache, window=window)
