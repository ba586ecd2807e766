"""The objective of a network or a trained model, and its recipe for a tokenizer."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import registry
from ..core.errors import InputError
from ..models.config import ModelConfig
from ..models.model import Model
from ..text.tokenizers.tokenizer import Tokenizer
from .base import Objective, Recipe
from .causal import NextTokenPrediction, StatefulCausalLM
from .masked import MASK_RATE, MaskedLanguageModeling, MaskedRecipe, Masker, special_tokens


def objective_for(objective: type[Objective], network: ModelConfig, *, carries: bool) -> type[Objective]:
    """Returns the stateful variant of causal language modeling for recurrent networks, else the objective itself.

    carries: whether recurrent networks carry their hidden state across batches.
    """
    if objective is NextTokenPrediction and carries and network.recurrent is not None:
        return StatefulCausalLM
    return objective


def objective_of(model: Model, *, carries: bool) -> type[Objective]:
    """Returns the objective that trained the head of an encoder; masked language modeling for heads of tasks.

    carries: as for `objective_for`.
    """
    found: list[type[Objective]] = [registry.resolve("objective", name) for name in registry.names("objective")]
    found = [one for one in found if one.head == model.head_name and not one.is_seq2seq]

    def fits(objective: type[Objective]) -> bool:
        return all(getattr(model.config, name) == value for name, value in objective.network_settings.items())

    objective = next((one for one in found if fits(one)), found[0] if found else MaskedLanguageModeling)
    return objective_for(objective, model.config, carries=carries)


def make_recipe(
    objective: type[Objective],
    tokenizer: Tokenizer,
    max_length: int,
    *,
    short_share: float = 0.0,
    token_counts: np.ndarray | None = None,
    mask_rate: float = MASK_RATE,
    whole_words: bool = False,
    **replaced: Any,
) -> Recipe:
    """Returns the recipe of an objective for a tokenizer.

    mask_rate: masking probability; whole_words: whole-word masking; replaced: settings of replaced token detection; the
    others as in Recipe. Raises InputError for a tokenizer without a special token that the objective needs.
    """
    ids: dict[str, int | None] = {role: getattr(tokenizer, f"{role}_id") for role in objective.roles}
    for role, index in ids.items():
        if index is None:
            raise InputError(
                f"The tokenizer has no [{role.upper()}] token, which objective {objective.name} needs: train one with "
                "maskwright tokenizer train."
            )
    begin_id, end_id, *mask_id = (index for index in ids.values() if index is not None)
    settings: dict[str, Any] = {"frames": bool(tokenizer.opening_ids), "token_counts": token_counts}
    if not mask_id:
        is_special = special_tokens(tokenizer.special_ids, tokenizer.vocab_size)
        return Recipe(begin_id, end_id, is_special, max_length, short_share, **settings)
    continues_word = tokenizer.continues_word() if whole_words else None
    masker = Masker(mask_id[0], tokenizer.special_ids, tokenizer.vocab_size, mask_rate, continues_word)
    return MaskedRecipe.of(begin_id, end_id, masker, max_length, short_share=short_share, **settings, **replaced)
