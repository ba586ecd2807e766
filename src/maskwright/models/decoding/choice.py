"""Which decoder lets texts grow: one that keeps keys and values of what was read, or one that remembers."""

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
    """prompts: ids of each row, at least one; the others are as the decoders take them. Memory needs no window."""
    if model.config.recurrent is not None:
        return RecurrentDecoder(model, prompts, use_cache=use_cache)
    return CausalDecoder(model, prompts, max_new_tokens, use_cache=use_cache, window=window)
