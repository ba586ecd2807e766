"""Regression: numbers in, numbers out, and rejected values."""

from __future__ import annotations

import pytest
import torch

from inference.samples import tiny, tokenizer
from maskwright.core.errors import ModelFolderError, RowErrors
from maskwright.tasks.base import task_from_json
from maskwright.tasks.regression import Regression
from tasks.standins import Words, row


def rows_of(*labels):
    return [row("ab", label, line=number) for number, label in enumerate(labels, start=2)]


@pytest.mark.parametrize("bad", ["nan", "NaN", "inf", "-inf", "1e999", "1e39", "three", "", None])
def test_what_is_no_finite_number_is_a_bad_row(bad):
    with pytest.raises(RowErrors) as caught:
        Regression().read_labels(rows_of("1.5", bad, "2"))
    assert [(bad.file, bad.line, bad.column) for bad in caught.value.rows] == [("rows.tsv", 3, "label")]


def test_loss_is_the_mean_squared_error_in_the_unit_of_the_targets():
    task = Regression()
    examples = task.examples(rows_of("1.5", "-2", "3e1"), Words())
    assert examples.targets.tolist() == [1.5, -2.0, 30.0]
    logits = torch.tensor([[1.0], [0.0], [30.0]])
    assert float(task.loss_of(logits, examples.targets)) == pytest.approx((0.25 + 4) / 3)
    assert task.metrics(logits, examples.targets)["mse"] == pytest.approx((0.25 + 4) / 3)
    assert task.decode(logits) == [{"score": 1.0}, {"score": 0.0}, {"score": 30.0}]


def test_a_new_head_starts_from_the_mean_of_the_targets():
    model = tiny("regression")
    examples = Regression().examples(rows_of("1", "2", "6"), tokenizer())
    Regression().init_from_counts(model, examples)
    assert model.head.classifier.bias.item() == 3.0


# -- a range of scores ---------------------------------------------------------------------------------------------


def test_scores_outside_the_range_are_bad_rows_of_their_own_column(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("text\tscore\na\t0\nb\t5.01\nc\t5\nd\t-0.5\ne\tx\nf\t2.5\n", encoding="utf-8")
    with pytest.raises(RowErrors) as caught:
        Regression.read(path, score_range=(0, 5))
    assert [(bad.file, bad.line, bad.column) for bad in caught.value.rows] == [
        (str(path), line, "score") for line in (3, 5, 6)
    ]
    assert caught.value.rows[0].reason == "5.01 is not between 0 and 5"
    table = Regression(score_range=(0, 5)).read_known(path, skip_bad_rows=True)
    assert [one.label for one in table.rows] == ["0", "5", "2.5"] and table.num_skipped == 3
    assert len(Regression.read(path, skip_bad_rows=True)) == 5


def test_the_range_holds_for_rows_of_any_source_and_not_for_answers():
    task = Regression.from_rows(rows_of("1", "-1"), score_range=(-1.0, 1.0))
    with pytest.raises(RowErrors):
        task.examples(rows_of("0", "1.5"), Words())
    assert task.examples(rows_of("0", "1.5"), Words(), skip_bad_rows=True).num_skipped == 1
    assert task.decode(torch.tensor([[3.5]])) == [{"score": 3.5}]


def test_the_range_is_kept_and_one_that_is_none_is_refused():
    task = Regression(score_range=(0, 5))
    assert task.to_json() == {"task": "regression", "score_range": [0.0, 5.0]}
    assert task_from_json(task.to_json()).score_range == (0.0, 5.0)
    for wrong in ([0], "05", [5, 0], [0, float("nan")], [None, 5], 3):
        with pytest.raises(ModelFolderError, match="score_range"):
            task_from_json({"task": "regression", "score_range": wrong})
