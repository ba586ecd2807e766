"""Pictures of an imbalance experiment: each is drawn from the result of a run, within its panel."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conventions.sources import REPOSITORY
from maskwright.core.errors import InputError
from maskwright.tasks.evaluation.rare import SeedPredictions, draw_counts, mean_curve


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the recipe."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))
    return import_module("rare_lab_picture")


@pytest.fixture
def run(recipe: Any, tmp_path: Path) -> Path:
    """What a run keeps, of noisy predictions."""
    gold = np.arange(300) % 20 == 0
    values = np.random.default_rng(0).normal(gold, 0.6)
    curve = mean_curve(gold, [SeedPredictions(values, values > 0.5)], *draw_counts(300, 1, samples=50)).to_json()
    row = {"title": "a method", "pr_auc": {"mean": 0.4, "low": 0.3, "high": 0.7}}
    result = {
        "rows": [row],
        "parts": {"test": {"rows": 300, "rare": 15}},
        "curves": dict.fromkeys(recipe.DRAWN, curve),
        "errors": {"ham": values[~gold].tolist(), "spam": values[gold].tolist()},
    }
    (tmp_path / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "said"),
    [("scores", "a method"), ("curves", "TF-IDF, logistic regression"), ("errors", "spam, 15 rows")],
)
def test_pictures_stay_inside_their_panels(
    recipe: Any, run: Path, monkeypatch: pytest.MonkeyPatch, kind: str, said: str
):
    monkeypatch.setattr("sys.argv", ["", kind, str(run / "a.svg"), f"at 5%={run}", f"at 10%={run}"])
    recipe.main()
    picture = (run / "a.svg").read_text(encoding="utf-8")
    assert said in picture and "at 10%" in picture
    _, _, width, height = map(float, re.search(r'viewBox="([^"]*)"', picture)[1].split())
    for points in re.findall(r'points="([^"]*)"', picture):
        x, y = zip(*(map(float, point.split(",")) for point in points.split()), strict=True)
        assert 0 <= min(x) <= max(x) <= width and 0 <= min(y) <= max(y) <= height
    assert bool(re.search(r"<poly", picture)) == (kind != "scores")


def test_a_folder_without_a_result_is_refused(recipe: Any, tmp_path: Path):
    with pytest.raises(InputError, match="pass finished runs"):
        recipe.read_run(f"at 5%={tmp_path}")
