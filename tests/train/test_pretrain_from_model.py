"""Continued pre-training of a model on other text: all weights, or an adapter."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import maskwright as mw
from inference.samples import tiny
from maskwright.core.errors import ConfigError, InputError
from maskwright.hub.folders import load_model
from maskwright.train.pretraining.config import PretrainConfig
from maskwright.train.pretraining.pretrain import pretrain
from train.runs import continues_exactly, corpus


def recipe(folder: Path, head: str | None = "mlm", **changes: object) -> PretrainConfig:
    """A run of some steps that starts from a model in `folder / "base"`."""
    tiny(head).save(folder / "base", replace=True)
    settings: dict[str, object] = {
        "corpus": (str(corpus(folder)),), "output": folder / "run", "start": str(folder / "base"), "objective": "mlm",
        "steps": 6, "batch_tokens": 256, "max_length": 32, "checkpoint_every": 2, "log_every": 1, "holdout": 0.15,
        "precision": "fp32", "compile": "off",
    }  # fmt: skip
    return PretrainConfig(**{**settings, **changes})


def test_it_continues_from_the_weights_with_network_and_tokenizer(tmp_path: Path):
    result = pretrain(recipe(tmp_path, lr=1e-12))
    start, model = (load_model(folder)[0] for folder in (tmp_path / "base", result.model))
    assert model.config == start.config and model.tokenizer.files() == start.tokenizer.files()
    for name, tensor in model.state_dict().items():
        assert torch.allclose(tensor, start.state_dict()[name], atol=1e-6), name


@pytest.mark.parametrize("head", ["mlm", None], ids=["with its head", "with a new head"])
def test_an_adapter_of_a_domain_resumes_and_fills_masks(head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    settings = {"adapter": "lora", "lr": 1e-2, "targets": "all-linear", "dropout": 0.0}
    result = pretrain(recipe(tmp_path, head, **settings))
    assert (result.model / "adapter_model.safetensors").is_file()
    start, model = (load_model(folder, "mlm")[0] for folder in (tmp_path / "base", result.model))
    assert not torch.equal(start.encoder.layers[0].ffn.up.weight, model.encoder.layers[0].ffn.up.weight)  # merged
    _, report = load_model(result.model)
    assert report.new == []
    assert mw.FillMask(str(result.model)).fit(["the [MASK]"]).predict(["the [MASK] fell"])
    config = recipe(tmp_path, head, **settings, output=tmp_path / "broken")
    continues_exactly(pretrain, config, monkeypatch, whole=result.output, files=["model/adapter_model.safetensors"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"start": None, "adapter": "lora"}, "--adapter requires --model"),
        ({"tokenizer": "tok"}, "'tokenizer' requires random weights"),
        ({"model": {"hidden_size": 64}}, "'model' requires random weights"),
        ({"objective": "rtd"}, "rtd trains two networks"),
        ({"rank": 4}, "'rank' requires --adapter lora"),
    ],
)
def test_settings_that_do_not_fit_are_named(tmp_path: Path, settings: dict, message: str):
    with pytest.raises(ConfigError, match=message):
        recipe(tmp_path, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"objective": "clm"},
            "Objective clm needs a network with attention=causal, which .* is not: use --objective mlm",
        ),
        ({"objective": "mlm+sop"}, r"Objective mlm\+sop needs a network with pair_objective=sop, which .* is not"),
        ({"max_length": 64}, "'max_length' is 64; .* has 48 positions"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_and_leaves_nothing(tmp_path: Path, settings: dict, message: str):
    with pytest.raises(InputError, match=message):
        pretrain(recipe(tmp_path, **settings))
    assert not (tmp_path / "run").exists()
