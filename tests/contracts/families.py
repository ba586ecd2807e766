"""The contract of families: a folder identifies its family, every head is restored, and weight names are unique."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from contracts.common import SMALL, lively
from maskwright.core import registry
from maskwright.hub.family import Family
from maskwright.hub.folders import load_model, save_model
from maskwright.models.config import ModelConfig
from maskwright.models.presets import PRESETS, preset


def network(name: str) -> ModelConfig:
    """A small network of the family: its first preset with small sizes, or what it makes of the defaults."""
    mine = [one for one in PRESETS if preset(one).family == name]
    if mine and name != "maskwright":  # our own format takes any network and every head
        return preset(mine[0], **SMALL)
    family = described(name)
    return ModelConfig(**family.to_ours(family.to_theirs(ModelConfig(family=name, **SMALL))))


def described(name: str) -> Family:
    """Return the family of a registered name."""
    found: Family = registry.resolve("family", name)()
    return found


def travels(name: str, folder: Path) -> None:
    """Every head that the family has classes for is written under its model type and comes back with the same bits."""
    family = described(name)
    for head in set(family.classes.values()):
        model, target = lively(network(name), head), folder / str(head)
        model.tokenizer = None  # whose files are not of the family
        save_model(model, target)
        written = json.loads((target / "config.json").read_text(encoding="utf-8"))
        assert written["model_type"] == family.model_type
        assert written["architectures"] == [family.class_of(head)]
        loaded, report = load_model(target)
        assert (loaded.head_name, loaded.config) == (head, model.config)
        assert not report.new and not report.unused
        after = loaded.state_dict()
        assert all(torch.equal(value, after[key]) for key, value in model.state_dict().items())


def repeats(name: str, folder: Path) -> None:
    """A configuration survives the way to the family's names and back; two ways give the same."""
    config, family = network(name), described(name)
    theirs = family.to_theirs(config)
    assert theirs == family.to_theirs(config)
    assert ModelConfig(**family.to_ours(theirs)) == config


FAMILY = {
    "saving": travels,
    "seed": repeats,
}
