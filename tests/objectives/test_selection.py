"""Which objective a trained model has, and the recipe that an objective has with a tokenizer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from maskwright.core import registry
from maskwright.core.errors import InputError
from maskwright.models.build import build
from maskwright.models.presets import preset
from maskwright.objectives.base import Objective, Recipe
from maskwright.objectives.causal import StatefulCausalLM
from maskwright.objectives.masked import MaskedLanguageModeling, MaskedRecipe
from maskwright.objectives.selection import make_recipe, objective_of
from maskwright.text.tokenizers.tokenizer import Tokenizer
from objectives.packing import CONFIG
from text.tokenizer_samples import CORPUS


@pytest.mark.parametrize("name", ["mlm", "mlm+nsp", "mlm+sop", "rtd", "clm"])
def test_the_head_of_a_model_tells_its_objective(name: str):
    objective = registry.resolve("objective", name)
    config = replace(CONFIG, **objective.network_settings)
    assert objective_of(build(config, objective.head), carries=True) is objective


def test_a_recurrent_network_carries_its_state_unless_it_is_reset():
    model = build(preset("lstm-small", vocab_size=50, hidden_size=16), "clm")
    assert objective_of(model, carries=True) is StatefulCausalLM
    assert objective_of(model, carries=False) is registry.resolve("objective", "clm")


def test_every_objective_derives_from_the_base_and_only_those_that_mask_have_a_masker():
    tokenizer = Tokenizer.train_from_iterator(CORPUS, "wordpiece", 100)
    for name in registry.names("objective"):
        objective: type[Objective] = registry.resolve("objective", name)
        recipe = make_recipe(objective, tokenizer, 20)
        assert issubclass(objective, Objective)
        assert isinstance(recipe, MaskedRecipe) == ("mask" in objective.roles), name
        assert type(recipe) in (Recipe, MaskedRecipe)
        assert set(np.flatnonzero(recipe.is_special)) == tokenizer.special_ids


def test_a_tokenizer_without_a_mask_is_refused_by_name(monkeypatch: pytest.MonkeyPatch):
    tokenizer = Tokenizer.train_from_iterator(CORPUS, "wordpiece", 100)
    monkeypatch.setattr(tokenizer, "mask_id", None)
    with pytest.raises(InputError, match=r"no \[MASK\] token, which objective mlm needs"):
        make_recipe(MaskedLanguageModeling, tokenizer, 20)
    assert make_recipe(registry.resolve("objective", "clm"), tokenizer, 20).cls_id == tokenizer.bos_id
