"""The network that a task is trained on from scratch: a preset over the vocabularies that are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.errors import InputError
from ..models.config import ModelConfig
from ..models.presets import preset, written_ends
from ..text.tokenizer import Tokenizer


def network_from_scratch(
    name: str, changes: Mapping[str, Any], tokenizer: Tokenizer, target: Tokenizer | None
) -> ModelConfig:
    """Preset `name` over these vocabularies, with what a recipe changes.

    target: the tokenizer of what is written, where each side has its own. Of a network that writes: with what begins
    and ends a text; of one that reads characters: with what stands between words. Raises InputError for tokenizers that
    do not fit.
    """
    published = preset(name)
    own: dict[str, Any] = {"vocab_size": tokenizer.vocab_size, "pad_token_id": tokenizer.pad_id or 0}
    if published.num_decoder_layers:
        written = target or tokenizer
        own["decoder_vocab_size"] = None if target is None else target.vocab_size
        own |= written_ends(published, written)
    elif target is not None:
        raise InputError(f"Preset {name} writes no second text: leave --target-tokenizer out.")
    if published.character_width or changes.get("character_width"):
        own["space_token_id"] = _space_of(tokenizer, name)
    return preset(name, **{**own, **changes})


def _space_of(tokenizer: Tokenizer, name: str) -> int:
    """The id of the space, behind which characters have theirs."""
    space = tokenizer.token_to_id(" ")
    if tokenizer.kind != "char" or space is None:
        raise InputError(
            f"Preset {name} makes words of characters, and this tokenizer has other pieces: train one with "
            "maskwright tokenizer train --kind char."
        )
    return space
