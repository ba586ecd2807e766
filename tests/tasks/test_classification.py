"""Classification: labels from the data, losses by formula, answers and metrics in the labels' names."""

from __future__ import annotations

import json
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import InputError, ModelFolderError, RowErrors
from maskwright.tasks.base import task_from_json
from maskwright.tasks.classification import Classification, balanced_weights, sort_labels, split_labels
from maskwright.tasks.evaluation.scoring import worst_errors
from tasks.standins import SumModel, Words, row


def rows_of(*labels, text="ab"):
    return [row(text, label, line=number) for number, label in enumerate(labels, start=2)]


def test_labels_are_sorted_by_name_and_numbers_by_value():
    assert Classification.from_rows(rows_of("b", "a", "b")).labels == ["a", "b"]
    assert Classification.from_rows(rows_of("10", "9", "1")).labels == ["1", "9", "10"]
    assert sort_labels(["10", "9", "x"]) == ["10", "9", "x"]
    assert sort_labels(["nan", "2"]) == ["2", "nan"]


def test_every_unknown_dev_label_is_reported_with_its_line():
    with pytest.raises(RowErrors) as caught:
        Classification.from_rows(rows_of("yes", "no")).read_labels(rows_of("yes", "ye", "no", "maybe"))
    assert [(bad.file, bad.line) for bad in caught.value.rows] == [("rows.tsv", 3), ("rows.tsv", 5)]
    assert "Did you mean 'yes'" in str(caught.value)


def test_bad_rows_are_skipped_and_counted_on_request():
    task = Classification(["no", "yes"])
    examples = task.examples(rows_of("yes", "what", "no"), Words(), skip_bad_rows=True)
    assert examples.num_skipped == 1
    assert examples.targets.tolist() == [1, 0]
    with pytest.raises(InputError, match="no usable row"):
        task.examples(rows_of("what"), Words(), skip_bad_rows=True)


def test_a_missing_label_is_a_bad_row():
    with pytest.raises(RowErrors, match="is missing"):
        Classification.from_rows(rows_of("a", None, "b")).read_labels(rows_of("a", None, "b"))


def test_a_bar_makes_the_task_multi_label():
    task = Classification.from_rows(rows_of("red|blue", "blue", "", "green"))
    assert task.multi_label
    assert task.labels == ["blue", "green", "red"]
    assert task.examples(rows_of("red|blue", ""), Words()).targets.tolist() == [[1, 0, 1], [0, 0, 0]]
    assert split_labels(" a | b|") == ["a", "b"]


def test_single_label_loss_is_the_mean_negative_log_probability():
    task, logits = Classification(["a", "b", "c"]), torch.randn(5, 3)
    targets = torch.tensor([0, 1, 2, 1, 0])
    expected = -logits.log_softmax(-1)[range(5), targets].mean()
    assert torch.allclose(task.loss_of(logits, targets), expected)


def test_balanced_weights_let_every_class_count_the_same():
    task = Classification.from_rows(rows_of(*["a"] * 6, "b", "b"), class_weight="balanced")
    assert task.class_weights == pytest.approx([8 / 12, 8 / 4])
    lost_by_a = 6 * task.loss_of(torch.zeros(6, 2), torch.zeros(6, dtype=torch.int64))
    lost_by_b = 2 * task.loss_of(torch.zeros(2, 2), torch.ones(2, dtype=torch.int64))
    assert float(lost_by_a) == pytest.approx(float(lost_by_b))
    assert balanced_weights([6, 2], 8, multi_label=True) == pytest.approx([2 / 6, 6 / 2])


@given(st.integers(1, 7))
def test_weighted_loss_adds_up_over_any_cut_of_a_batch(cut):
    task = Classification(["a", "b"], class_weights=[0.5, 3.0])
    logits, targets = torch.linspace(-2, 2, 16).view(8, 2).sin(), torch.tensor([0, 1, 0, 0, 0, 1, 0, 0])
    whole = task.loss_of(logits, targets) * 8
    parts = task.loss_of(logits[:cut], targets[:cut]) * cut + task.loss_of(logits[cut:], targets[cut:]) * (8 - cut)
    assert torch.allclose(whole, parts, atol=1e-5)


def test_multi_label_loss_is_binary_cross_entropy_over_labels():
    task, logits = Classification(["a", "b"], multi_label=True), torch.randn(4, 2)
    targets = torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    expected = F.binary_cross_entropy(logits.sigmoid(), targets)
    assert torch.allclose(task.loss_of(logits, targets), expected, atol=1e-6)


def test_answers_name_the_best_label_and_all_probabilities():
    answer = Classification(["ham", "spam"]).decode(torch.tensor([[0.0, math.log(3.0)]]))[0]
    assert answer["label"] == "spam"
    assert answer["score"] == pytest.approx(0.75)
    assert answer["probabilities"] == pytest.approx({"ham": 0.25, "spam": 0.75})
    assert json.loads(json.dumps(answer)) == answer


def test_several_labels_apply_from_one_half():
    task = Classification(["a", "b", "c"], multi_label=True)
    answer = task.decode(torch.tensor([[0.1, -0.1, 5.0]]))[0]
    assert answer["labels"] == ["a", "c"]


def test_the_second_label_is_the_positive_class():
    task = Classification(["0", "1"])
    logits = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    result = task.metrics(logits, torch.tensor([1, 1, 0]))
    assert result["f1"] == pytest.approx(2 / 3)
    ranked = {"pr_auc", "recall_at_precision_90"}
    assert set(result) == {"accuracy", "macro_f1", "f1", "matthews", "ece", "ece_equal_mass"} | ranked
    assert "f1" not in Classification(["a", "b", "c"]).metrics(torch.eye(3), torch.arange(3))


def test_answers_that_are_not_finite_are_refused():
    model = SumModel()
    model.word_embeddings.data[3] = float("nan")
    task = Classification(["a", "b", "c"])
    with pytest.raises(InputError, match="not finite"):
        task.evaluate(model, task.examples([row(chr(2 + 50), "a")], Words()))


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"task": "nonsense"},
        {"task": "classification"},
        {"task": "classification", "labels": "ab"},
        {"task": "classification", "labels": ["a", "a"]},
        {"task": "classification", "labels": ["a", 2]},
        {"task": "classification", "labels": ["a", "b"], "class_weights": ["x", 1]},
        {"task": "classification", "labels": ["a", "b"], "class_weights": [1.0]},
    ],
)
def test_facts_that_do_not_fit_are_refused_in_words(facts):
    with pytest.raises(ModelFolderError, match=r"maskwright\.json"):
        task_from_json(facts)


def test_confusion_counts_gold_by_row_and_answer_by_column():
    logits = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    table = Classification(["a", "b"]).confusion(logits, torch.tensor([0, 0, 1]))
    assert table == [[1, 1], [0, 1]]


def test_the_worst_errors_come_first_and_right_rows_not_at_all():
    task = Classification(["a", "b"])
    rows = [row("right", "a"), row("slightly wrong", "a"), row("very wrong", "b")]
    examples = task.examples(rows, Words())
    logits = torch.tensor([[2.0, 0.0], [0.0, 0.5], [4.0, 0.0]])
    found = worst_errors(task, examples, logits)
    assert [error["text"] for error in found] == ["very wrong", "slightly wrong"]
    assert found[0]["gold"] == "b"
    assert found[0]["label"] == "a"
    assert len(worst_errors(task, examples, logits, limit=1)) == 1
