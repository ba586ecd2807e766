"""The recipe of next sentence prediction: training and held-out documents are apart, and a network that knows nothing
scores what length and position score.
"""

from __future__ import annotations

import lzma
import random
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from conventions.sources import REPOSITORY
from inference.samples import tiny


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The module of the recipe, for examples that a small network has room for."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))
    monkeypatch.setenv("MASKWRIGHT_DATA", str(tmp_path))
    module = import_module("next_sentence")
    monkeypatch.setattr(module, "MAX_LENGTH", 32)
    return module


def document(number: int) -> list[str]:
    """A few sentences of random words, and one that names the document."""
    rng = random.Random(number)
    words = "the cat sat rain fell dogs sit".split()  # noqa: SIM905
    sentences = [" ".join(rng.choices(words, k=rng.randint(3, 9))) + " ." for _ in range(rng.randint(1, 5))]
    return [f"document {number} .", *sentences]


def write(folder: Path, name: str, count: int) -> Path:
    """A packed text of `count` documents."""
    path = folder / f"{name}.txt.xz"
    path.parent.mkdir(exist_ok=True)
    with lzma.open(path, "wt", encoding="utf-8") as file:
        file.write("\n\n".join("\n".join(document(number)) for number in range(count)) + "\n")
    return path


def test_no_held_out_document_is_trained_on(recipe: Any, tmp_path: Path):
    for name in recipe.TEXTS:
        write(tmp_path / "pretraining_text", name, 120)
    training, held_out = (list(recipe.documents_of(path)) for path in recipe.write_texts(tmp_path / "out"))
    assert (len(training), len(held_out)) == (5 * 30, 5 * 3)
    assert not set(training) & set(held_out)
    assert recipe.two_sentence_documents(tmp_path / "out/held-out.txt")[1][0] == "document 50 ."


def test_a_network_that_knows_nothing_scores_what_a_coin_scores(recipe: Any, tmp_path: Path):
    tiny("pretraining").save(tmp_path / "model")
    known, asked = (write(tmp_path, name, count) for name, count in (("known", 900), ("asked", 400)))
    found = recipe.score(tmp_path / "model", known, asked)
    assert found["documents"] == 400 and found["pairs"] > 300
    for name, value in found.items():
        assert name in ("documents", "pairs") or 0.4 < value < 0.6, (name, value)


def test_pairs_of_two_documents_are_compared_with_neighbors(recipe: Any, tmp_path: Path):
    tiny("pretraining").save(tmp_path / "model")
    found = recipe.score_two(tmp_path / "model", [("the cat sat .", "rain fell ."), ("dogs sit .", "the cat sat .")])
    assert found["pairs of each kind"] == 2 and len(found) == 7
    assert all(0 <= value <= 1 for name, value in found.items() if name != "pairs of each kind")
