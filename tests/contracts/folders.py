"""The contract of model folders: complete with a manifest, equal when loaded, never over another."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from contracts.common import ROWS, SMALL, lively
from contracts.networks import answers
from maskwright.core import registry, storage
from maskwright.core.errors import CorruptFileError, RunError
from maskwright.hub.folders import load_model, read_facts
from maskwright.models.config import ModelConfig

HEADS = (None, "pretraining", "classification")


def travels(name: str, folder: Path) -> None:
    """Every parameter, the tokenizer and the facts come back as they were."""
    save = registry.resolve("model_folder", name)
    for head in HEADS:
        target = folder / str(head)
        model = lively(ModelConfig(**SMALL), head)
        save(model, target, facts={"max_length": 17})
        loaded, report = load_model(target)
        assert not report.new and not report.unused
        assert read_facts(target)["max_length"] == 17
        assert loaded.tokenizer.files() == model.tokenizer.files()
        before, after = answers(model, ROWS), answers(loaded, ROWS)
        assert all(torch.equal(before[key], after[key]) for key in before)


def is_whole(name: str, folder: Path) -> None:
    """A manifest covers every file, a changed byte is found, and a folder that is there stays unless replaced."""
    save = registry.resolve("model_folder", name)
    model, target = lively(ModelConfig(**SMALL)), folder / "model"
    save(model, target)
    storage.verify_folder(target)
    with pytest.raises(RunError):
        save(model, target)
    save(model, target, replace=True)
    weights = next(target.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x55")
    with pytest.raises(CorruptFileError, match=weights.name):
        load_model(target)


def repeats(name: str, folder: Path) -> None:
    """One model gives the same bytes every time."""
    save = registry.resolve("model_folder", name)
    model = lively(ModelConfig(**SMALL), "mlm")
    for target in ("one", "two"):
        save(model, folder / target)
    manifests = [(folder / target / storage.MANIFEST).read_bytes() for target in ("one", "two")]
    assert manifests[0] == manifests[1]


MODEL_FOLDER = {
    "saving": travels,
    "whole": is_whole,
    "seed": repeats,
}
