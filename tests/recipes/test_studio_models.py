"""Training data of the small models: answer offsets are correct, German agrees, and a finished model is kept."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from conventions.sources import REPOSITORY


@pytest.fixture(autouse=True)
def recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipes can be imported."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))


@pytest.mark.slow
def test_a_finished_model_is_kept_until_its_settings_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import studio_models

    wanted = studio_models.RECIPES["translator"]

    def few(draw: random.Random) -> dict[str, str]:
        return {file: "".join(text.splitlines(True)[:40]) for file, text in wanted.texts(draw).items()}

    def train(epochs: int) -> int:
        config = lambda texts, folder: replace(wanted.config(texts, folder), epochs=epochs)  # noqa: E731
        monkeypatch.setitem(studio_models.RECIPES, "translator", replace(wanted, texts=few, config=config))
        studio_models.train.cache_clear()
        model = studio_models.train(tmp_path, "translator")
        assert (model / "config.json").exists()
        return (model.parent / "result.json").stat().st_mtime_ns

    first = train(1)
    assert train(1) == first
    assert train(2) != first
