"""The objective of a run fits its network: the default one always, another one or an error that names those that do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import maskwright as mw
from maskwright.core.errors import InputError
from maskwright.models.build import build
from maskwright.models.presets import PRESETS, preset
from maskwright.objectives.fitting import check_fits, fitting_objectives, usual_objective
from maskwright.speed.plan_config import PlanConfig
from maskwright.train.pretraining.pretrain import pretrain, pretraining_plan
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
def test_the_default_objective_is_that_of_the_network(name: str, objective: str, tmp_path: Path):
    config = mw.PretrainConfig(corpus=("-",), output=tmp_path, preset=name)
    assert config.objective == usual_objective(PRESETS[name]) == objective
    assert PlanConfig(preset=name).objective == objective


def test_the_default_objective_of_every_preset_fits_it():
    for name, network in PRESETS.items():
        fitting = fitting_objectives(network)
        assert fitting[:1] == ([usual_objective(network)] if network.num_hidden_layers else []), name


@pytest.mark.parametrize("name", ["gpt2", "lstm-small", "rnn-small"])
@pytest.mark.parametrize("objective", MASKED)
def test_a_causal_network_learns_no_masked_tokens(name: str, objective: str, tmp_path: Path):
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
def test_a_model_keeps_its_kind_of_objective(name: str, head: str, usual: str, unfit: str, tmp_path: Path):
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 90, "pad_token_id": None}
    sizes |= {} if name == "elmo-small" else {"num_attention_heads": 2}
    model = build(preset(name, **sizes), head)
    model.save(tmp_path / "model")
    config = mw.PretrainConfig(corpus=("-",), output=tmp_path / "run", start=str(tmp_path / "model"))
    assert config.objective == usual
    with pytest.raises((InputError, mw.MaskwrightError), match=f"{unfit}.*(use --objective {usual}|cannot continue)"):
        pretrain(replace(config, objective=unfit))
