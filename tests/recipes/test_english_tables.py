"""The recipe of the comparison of the built-in model, on a few rows."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from conventions.sources import REPOSITORY
from maskwright.core import storage


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """The recipe as a module, with data of 40 rows."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))
    import english_tables

    news = [f"the {word} number {number}\t{label}" for number in range(10) for word, label in PLAIN]
    pairs = [
        f"a {one} {number}\ta {other} {number}\t{5.0 * (one == other)}" for number in range(10) for one, other in TWO
    ]
    tables = {"agnews": ["text\tlabel", *news], "stsb": ["sentence1\tsentence2\tscore", *pairs]}
    for name, lines in tables.items():
        for part in ("train", "dev"):
            storage.write_text(tmp_path / "data" / name / f"{part}.tsv", "\n".join(lines) + "\n")
    monkeypatch.setenv("MASKWRIGHT_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(english_tables, "HELD", 16)
    return english_tables


PLAIN = (("match", "Sports"), ("bank", "Business"), ("game", "Sports"), ("market", "Business"))
TWO = (("cat", "cat"), ("cat", "dog"), ("dog", "dog"), ("dog", "cat"))


def test_training_rows_differ_by_seed_and_are_never_test_rows(recipe, tmp_path):
    task = replace(recipe.TASKS[0], rows=12)
    files = [recipe.split(task, seed, tmp_path) for seed in range(2)]
    train, test = (
        [{row["text"] for row in recipe.rows_of(path)} for path in paths] for paths in zip(*files, strict=True)
    )
    assert [len(rows) for rows in (*train, *test)] == [12, 12, 16, 16]
    assert train[0] != train[1] and test[0] == test[1] and not test[0] & (train[0] | train[1])


def test_cells_are_measured_once_and_printed(recipe, tmp_path, monkeypatch, capsys):
    news = replace(recipe.TASKS[0], rows=20, settings={"epochs": 1})
    pairs = next(task for task in recipe.TASKS if task.folder == "stsb")
    own = [recipe.Cell(news, "tfidf"), recipe.Cell(pairs, "tfidf"), recipe.Cell(news, "english")]
    monkeypatch.setattr(recipe, "TASKS", (news, pairs))
    monkeypatch.setattr(recipe, "cells", lambda: own)
    monkeypatch.setattr(sys, "argv", ["english_tables.py", "-o", str(tmp_path)])
    recipe.main()
    lines = capsys.readouterr().out.splitlines()
    measured = {line.split(":")[0] for line in lines if line.startswith(("agnews", "stsb"))}
    assert measured == {"agnews-20.tfidf.0", "stsb.tfidf.0", "agnews-20.english.0"}
    found = {path.name: storage.read_json(path)["metrics"] for path in (tmp_path / "cells").iterdir()}
    assert found["agnews-20.tfidf.0.json"]["accuracy"] > 0.9 and found["stsb.tfidf.0.json"]["pearson"] > 0.9
    row = next(line for line in lines if line.startswith("| AG News, 100 rows: accuracy"))
    assert f"{100 * found['agnews-20.english.0.json']['accuracy']:.1f}" in row
    assert not list((tmp_path / "runs").iterdir())  # models are deleted
    recipe.main()
    assert "agnews-20.english.0:" not in capsys.readouterr().out


def test_scores_show_the_range_of_the_seeds(recipe):
    task = next(task for task in recipe.TASKS if task.folder == "stsb")
    runs = [{"metrics": {"pearson": score, "spearman": 0.5}} for score in (0.8, 0.7, 0.9)]
    assert recipe.shown(task, runs) == "80.0/50.0 (70.0 to 90.0)"
    assert recipe.shown(task, runs[:2]) == "75.0/50.0 (70.0 to 80.0; 2 seeds)"
    assert recipe.shown(task, runs[:1]) == "80.0/50.0 (1 seed)" and recipe.shown(task, []) == ""
