"""A metric and a reader that another package registers are used like those of this one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from maskwright.core import registry
from maskwright.core.errors import ConfigError, RowErrors
from maskwright.tasks.classification import Classification


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file of the layout, whose reader is registered."""
    monkeypatch.setitem(registry.TABLE["reader"], "colons", "tasks.own_parts:READER")
    path = tmp_path / "train.colons"
    path.write_text("spam:: win a prize\nham:: see you at noon\nspam:: a free gift\n", encoding="utf-8")
    return path


def test_a_registered_layout_is_read_for_classification(file: Path):
    rows = Classification.read(file).rows
    assert [(row.text, row.label) for row in rows[:2]] == [("win a prize", "spam"), ("see you at noon", "ham")]
    task = Classification.from_rows(rows)
    assert task.labels == ["ham", "spam"] and task.read_known(file).rows == rows
    file.write_text(file.read_text(encoding="utf-8") + "ham\n", encoding="utf-8")
    with pytest.raises(RowErrors, match="train.colons:4: has no ::"):
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
