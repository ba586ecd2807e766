"""The recipe of entailment: the asked pairs are read from the data, and none of their premises is trained on."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from conventions.sources import REPOSITORY
from maskwright.core.errors import InputError


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The module of the recipe, with the data folder of this test."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))
    monkeypatch.setenv("MASKWRIGHT_DATA", str(tmp_path))
    return import_module("entailment")


def snli(folder: Path, pairs: list[tuple[str, str]]) -> None:
    """A small SNLI (the asked pairs, another hypothesis of each premise, and another premise) and one row of MNLI."""
    (folder / "snli").mkdir()
    for part in ("train", "dev"):
        rows = ["premise\thypothesis\tlabel", f"A dog runs.\tAn animal moves in {part}.\tentailment"]
        for premise, hypothesis in pairs if part == "train" else ():
            rows += [f"So: {premise}.\tThus {hypothesis}.\tneutral", f"So: {premise}.\tSomething else.\tentailment"]
        (folder / "snli" / f"{part}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "mnli").mkdir()
    lines = ["premise\thypothesis\tlabel", "It rains.\tIt is wet.\tentailment"]
    (folder / "mnli" / "train.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_no_premise_of_a_pair_is_trained_on(tmp_path: Path, recipe: Any):
    snli(tmp_path, list(recipe.PAIRS))
    asked = recipe.split_off(tmp_path / "out")
    assert [label for *_, label in asked] == ["neutral"] * len(recipe.PAIRS)
    for part in ("train", "dev"):
        lines = (tmp_path / "out" / f"{part}.tsv").read_text(encoding="utf-8").splitlines()
        others = ["It rains."] if part == "train" else []
        assert [line.partition("\t")[0] for line in lines[1:]] == ["A dog runs.", *others]


def test_a_pair_that_is_not_in_the_data_is_named(tmp_path: Path, recipe: Any):
    snli(tmp_path, list(recipe.PAIRS[1:]))
    with pytest.raises(InputError, match=recipe.PAIRS[0][0]):
        recipe.split_off(tmp_path / "out")
