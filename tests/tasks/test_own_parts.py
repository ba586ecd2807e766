"""A metric and a reader that another package registers are used like those of this one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from maskwright.core import registry
from maskwright.core.errors import ConfigError, RowErrors
from maskwright.tasks.classification import Classification

LINES = "__label__spam win a prize\n__label__ham see you at noon\n__label__spam a free gift\n"


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file of the layout, whose reader is registered."""
    monkeypatch.setitem(registry.TABLE["reader"], "fasttext", "tasks.own_parts:READER")
    path = tmp_path / "train.txt"
    path.write_text(LINES, encoding="utf-8")
    return path


def test_a_registered_layout_is_read_for_classification(file: Path):
    rows = Classification.read(file).rows
    assert [(row.text, row.label) for row in rows[:2]] == [("win a prize", "spam"), ("see you at noon", "ham")]
    task = Classification.from_rows(rows)
    assert task.labels == ["ham", "spam"] and task.read_known(file).rows == rows


def test_its_bad_rows_are_listed(file: Path):
    file.write_text(LINES + "__label__ham\n", encoding="utf-8")
    with pytest.raises(RowErrors, match="train.txt:4: has no text"):
        Classification.read(file)
    assert len(Classification.read(file, skip_bad_rows=True)) == 3


def test_a_registered_metric_of_classes_can_choose_the_epoch(monkeypatch: pytest.MonkeyPatch):
    task = Classification(["a", "b", "c"])
    with pytest.raises(ConfigError, match="balanced_accuracy"):
        task.choose_by("balanced_accuracy")
    monkeypatch.setitem(registry.TABLE["metric"], "balanced_accuracy", "tasks.own_parts:balanced_accuracy")
    gold, logits = torch.tensor([0, 0, 0, 1]), torch.eye(3)[[0, 0, 1, 1]]
    assert "balanced_accuracy" not in task.metrics(logits, gold)
    task.choose_by("balanced_accuracy")
    assert task.metrics(logits, gold)["balanced_accuracy"] == pytest.approx((2 / 3 + 1) / 2)
