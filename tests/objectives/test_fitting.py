"""Objectives and networks: which fit, how one is chosen, and that each learns by each."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import maskwright as mw
from maskwright.core import registry
from maskwright.core.errors import InputError
from maskwright.models.build import build
from maskwright.models.config import CHOICES, ModelConfig
from maskwright.models.presets import PRESETS, preset
from maskwright.objectives import selection
from maskwright.objectives.base import Objective, Recipe
from maskwright.objectives.causal import StatefulCausalLM
from maskwright.objectives.distillation import DistillationWeights, MaskedDistillation
from maskwright.objectives.fitting import check_fits, fitting_objectives, usual_objective
from maskwright.objectives.masked import MaskedLanguageModeling, MaskedRecipe
from maskwright.objectives.selection import make_recipe
from maskwright.speed.plan_config import PlanConfig
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.pretraining.pretrain import pretrain, pretraining_plan
from objectives.packing import CONFIG, VOCAB, batch_of, objective_of
from text.tokenizer_samples import CORPUS
from train.runs import pretraining

USUAL = {
    "bert-mini": "mlm+nsp",
    "roberta-base": "mlm",
    "distilbert-base": "mlm",
    "albert-base": "mlm+sop",
    "electra-small": "rtd",
    "electra-base-generator": "mlm",
    "bigbird-base": "mlm",
    "modernbert-base": "mlm",
    "gpt2": "clm",
    "lstm-small": "clm",
    "bilstm-small": "mlm",
    "elmo-small": "bilm",
    "transformer-mini": "denoise",
    "bart-base": "denoise",
    "seq2seq-small": "denoise",
    "autoencoder-small": "denoise",
}
MASKED = ("mlm", "mlm+nsp", "mlm+sop", "rtd")


@pytest.mark.parametrize(("name", "objective"), USUAL.items())
def test_the_default_objective_is_that_of_the_network(name, objective, tmp_path):
    config = mw.PretrainConfig(corpus=("-",), output=tmp_path, preset=name)
    assert config.objective == usual_objective(PRESETS[name]) == objective
    assert PlanConfig(preset=name).objective == objective


def test_the_default_objective_of_every_preset_fits_it():
    for name, network in PRESETS.items():
        fitting = fitting_objectives(network)
        assert fitting[:1] == ([usual_objective(network)] if network.num_hidden_layers else []), name


@pytest.mark.parametrize("name", ["gpt2", "lstm-small", "rnn-small"])
@pytest.mark.parametrize("objective", MASKED)
def test_a_causal_network_learns_no_masked_tokens(name, objective, tmp_path):
    said = f"{objective} needs an encoder that sees both sides of a token, which {name} is not: use --objective clm"
    with pytest.raises(InputError) as error:
        pretrain(pretraining(tmp_path, preset=name, objective=objective, model={}))
    assert said in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match="use --objective clm"):
        pretraining_plan(pretraining(tmp_path, preset=name, objective=objective, model={}))


def test_what_fits_is_named():
    with pytest.raises(InputError, match="bilm needs a recurrent encoder .*: use --objective mlm\\+nsp or mlm or"):
        check_fits("bilm", PRESETS["bert-tiny"], "bert-tiny")
    check_fits("bilm", PRESETS["elmo-small"], "elmo-small")
    check_fits("clm", PRESETS["bert-tiny"], "bert-tiny")  # it becomes causal
    with pytest.raises(InputError, match="train static embeddings with maskwright vectors"):
        check_fits("mlm", PRESETS["bag-small"], "bag-small")


@pytest.mark.parametrize(
    ("name", "head", "usual", "unfit"),
    [
        ("gpt2", "clm", "clm", "mlm"),
        ("bert-tiny", "mlm", "mlm", "clm"),
        ("bert-tiny", "pretraining", "mlm", "rtd"),
        ("elmo-small", "bilm", "bilm", "clm"),
    ],
)
def test_a_model_keeps_its_kind_of_objective(name, head, usual, unfit, tmp_path):
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 90, "pad_token_id": None}
    sizes |= {} if name == "elmo-small" else {"num_attention_heads": 2}
    model = build(preset(name, **sizes), head)
    model.save(tmp_path / "model")
    config = mw.PretrainConfig(corpus=("-",), output=tmp_path / "run", start=str(tmp_path / "model"))
    assert config.objective == usual
    with pytest.raises((InputError, mw.MaskwrightError), match=f"{unfit}.*(use --objective {usual}|cannot continue)"):
        pretrain(replace(config, objective=unfit))


# -- Which objective a trained model has, and the recipe that an objective has with a tokenizer ----------------------


@pytest.mark.parametrize("name", ["mlm", "mlm+nsp", "mlm+sop", "rtd", "clm"])
def test_the_head_of_a_model_tells_its_objective(name):
    objective = registry.resolve("objective", name)
    config = replace(CONFIG, **objective.network_settings)
    assert selection.objective_of(build(config, objective.head), carries=True) is objective


def test_a_recurrent_network_carries_its_state_unless_it_is_reset():
    model = build(preset("lstm-small", vocab_size=50, hidden_size=16), "clm")
    assert selection.objective_of(model, carries=True) is StatefulCausalLM
    assert selection.objective_of(model, carries=False) is registry.resolve("objective", "clm")


def test_every_objective_derives_from_the_base_and_only_those_that_mask_have_a_masker():
    tokenizer = Tokenizer.train_from_iterator(CORPUS, "wordpiece", 100)
    for name in registry.names("objective"):
        objective: type[Objective] = registry.resolve("objective", name)
        recipe = make_recipe(objective, tokenizer, 20)
        assert issubclass(objective, Objective)
        assert isinstance(recipe, MaskedRecipe) == ("mask" in objective.roles), name
        assert type(recipe) in (Recipe, MaskedRecipe)
        assert set(np.flatnonzero(recipe.is_special)) == tokenizer.special_ids


def test_a_tokenizer_without_a_mask_is_refused_by_name(monkeypatch):
    tokenizer = Tokenizer.train_from_iterator(CORPUS, "wordpiece", 100)
    monkeypatch.setattr(tokenizer, "mask_id", None)
    with pytest.raises(InputError, match=r"no \[MASK\] token, which objective mlm needs"):
        make_recipe(MaskedLanguageModeling, tokenizer, 20)
    assert make_recipe(registry.resolve("objective", "clm"), tokenizer, 20).cls_id == tokenizer.bos_id


# -- Every kind of positions and every rule of attention learns by every objective -----------------------------------

SMALL = ModelConfig(
    vocab_size=VOCAB,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=20,
    max_position_embeddings=24,
    hidden_dropout=0.0,
    attention_dropout=0.0,
    initializer_range=0.1,
    relative_distance=4,
    window_size=6,
    block_size=2,
    random_blocks=1,
)
NETWORKS = [
    *({"positions": kind} for kind in CHOICES["positions"]),
    *({"attention": rule, "positions": "rotary"} for rule in ("window", "global", "big_bird", "big_bird_published")),
    {"attention": "big_bird", "positions": "relative_key_value", "norm": "pre", "gated": True},
]


def made(name, config):
    if name != "distill":
        objective = objective_of(name, generator_share=0.5)
        settings = objective.network_settings
        return objective, objective.network(replace(config, **settings), seed=1)
    teacher = build(replace(config, initializer_range=0.6), "mlm", seed=2)  # it has something to say
    student = build(config, "mlm", seed=1)
    return MaskedDistillation(objective_of("mlm").recipe, teacher, DistillationWeights(), student), student


NAMES = ["mlm", "mlm+nsp", "mlm+sop", "rtd", "clm", "distill"]


@pytest.mark.parametrize(("name", "network"), [(NAMES[number % 6], one) for number, one in enumerate(NETWORKS)])
def test_the_loss_of_every_part_falls(name, network):
    objective, model = made(name, replace(SMALL, **network))
    batch, first, last = batch_of(objective), {}, {}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(20):
        outcome = objective.outcome(model.train(), batch)
        last = {part: float(loss.detach()) / outcome.counts[part] for part, loss in outcome.losses.items()}
        first = first or last
        optimizer.zero_grad()
        means = {part: loss / outcome.counts[part] for part, loss in outcome.losses.items()}
        sum(outcome.weights.get(part, 1.0) * mean for part, mean in means.items()).backward()
        optimizer.step()
    for part in objective.parts if name != "distill" else ("soft", "hidden"):  # the teacher contradicts the text
        assert last[part] < 0.9 * first[part], (part, first, last)
    assert all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())
