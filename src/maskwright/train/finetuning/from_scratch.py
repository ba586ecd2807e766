"""The model configuration of a task trained from scratch: a preset with the vocabularies of its tokenizers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.errors import InputError
from ...models.config import ModelConfig
from ...models.presets import preset, special_token_settings
from ...text.tokenizers.tokenizer import Tokenizer


def network_from_scratch(
    name: str, changes: Mapping[str, Any], tokenizer: Tokenizer, target: Tokenizer | None
) -> ModelConfig:
    """Preset `name` with these vocabularies and the changes of a recipe.

    target: the tokenizer of the target side, None if both sides share one. Decoders get the ids that start and end a
    text; character-level networks the id of the space. Raises InputError for unsuitable tokenizers.
    """
    published = preset(name)
    own: dict[str, Any] = {"vocab_size": tokenizer.vocab_size, "pad_token_id": tokenizer.pad_id or 0}
    if published.num_decoder_layers:
        written = target or tokenizer
        own["decoder_vocab_size"] = None if target is None else target.vocab_size
        own |= special_token_settings(published, written)
    elif target is not None:
        raise InputError(f"Preset {name} has no decoder: remove --target-tokenizer.")
    if published.character_width or changes.get("character_width"):
        own["space_token_id"] = _space_of(tokenizer, name)
    return preset(name, **{**own, **changes})


def _space_of(tokenizer: Tokenizer, name: str) -> int:
    """The id of the space; the ids of characters follow it."""
    space = tokenizer.token_to_id(" ")
    if tokenizer.word_markers.words != "space" or space is None:
        raise InputError(
            f"Preset {name} has character-level embeddings and needs a character tokenizer: train one with "
            "maskwright tokenizer train --kind char."
        )
    return space
