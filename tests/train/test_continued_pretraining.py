"""Continued pre-training: `pretrain --model`, which starts from the network, vocabulary and weights of a model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import maskwright as mw
from maskwright.core.errors import ConfigError, InputError
from maskwright.train.pretraining.pretrain import pretrain
from train.runs import pretraining


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    """A model with masked-LM weights and its own vocabulary."""
    return pretrain(pretraining(tmp_path_factory.mktemp("start"), objective="mlm", steps=4)).model


def continued(folder: Path, start: Path, **changes) -> mw.PretrainConfig:
    """A run that continues from `start`."""
    folder.mkdir(exist_ok=True)
    config = pretraining(folder, steps=2)
    kept = {name: getattr(config, name) for name in ("corpus", "output", "steps", "batch_tokens", "max_length", "seed")}
    return mw.PretrainConfig(**{**kept, "precision": config.precision, "device": "cpu", "start": str(start), **changes})


def test_it_begins_with_the_weights_of_the_model(tmp_path: Path, start: Path):
    result = pretrain(continued(tmp_path, start, lr=1e-12, weight_decay=0.0))
    before, after = mw.load(start), mw.load(result.model)
    assert after.config == before.config
    assert after.tokenizer.vocab_size == before.tokenizer.vocab_size
    for (name, old), new in zip(before.state_dict().items(), after.state_dict().values(), strict=True):
        assert torch.allclose(old, new, atol=1e-9), name


def test_it_trains_them_and_records_the_start(tmp_path: Path, start: Path):
    config = continued(tmp_path, start)
    assert (config.objective, config.lr, config.preset) == ("mlm", 1e-4, None)
    result = pretrain(config)
    weights = [mw.load(folder).state_dict() for folder in (start, result.model)]
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    facts = json.loads((result.model / "maskwright.json").read_text())
    assert facts["training"]["start"] == start.name  # cards have no paths of a machine
    assert pretrain(config).already_finished


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"preset": "bert-tiny"}, "preset"),
        ({"tokenizer": Path("tok")}, "tokenizer"),
        ({"model": {"norm": "pre"}}, "model"),
    ],
)
def test_network_and_vocabulary_are_those_of_the_model(tmp_path: Path, start: Path, changes, message: str):
    with pytest.raises(ConfigError, match=f"'{message}' requires random weights"):
        continued(tmp_path, start, **changes)


def test_what_the_network_cannot_do_is_an_error(tmp_path: Path, start: Path):
    with pytest.raises(InputError, match="needs a network with attention=causal, which .* is not: use --objective mlm"):
        pretrain(continued(tmp_path / "a", start, objective="clm"))
    positions = mw.load(start).config.max_position_embeddings
    config = continued(tmp_path / "b", start)
    with pytest.raises(InputError, match=f"has {positions} positions"):
        pretrain(replace(config, max_length=positions + 8, batch_tokens=4 * positions))
