"""Classification and regression: labels, losses by formula, answers, metrics, and the class that a ranking is by."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.samples import tiny, tokenizer
from maskwright.core.errors import InputError, ModelFolderError, RowErrors
from maskwright.tasks.base import task_from_json
from maskwright.tasks.classification import Classification, balanced_weights, sort_labels, split_labels
from maskwright.tasks.evaluation import metrics
from maskwright.tasks.evaluation.scoring import worst_errors
from maskwright.tasks.regression import Regression
from maskwright.tasks.sequence import relevant_class
from maskwright.text.readers.tables import Row
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


# -- Regression ------------------------------------------------------------------------------------------------------


def scored_rows(*labels):
    return [row("ab", label, line=number) for number, label in enumerate(labels, start=2)]


@pytest.mark.parametrize("bad", ["nan", "NaN", "inf", "-inf", "1e999", "1e39", "three", "", None])
def test_what_is_no_finite_number_is_a_bad_row(bad):
    with pytest.raises(RowErrors) as caught:
        Regression().read_labels(scored_rows("1.5", bad, "2"))
    assert [(bad.file, bad.line, bad.column) for bad in caught.value.rows] == [("rows.tsv", 3, "label")]


def test_loss_is_the_mean_squared_error_in_the_unit_of_the_targets():
    task = Regression()
    examples = task.examples(scored_rows("1.5", "-2", "3e1"), Words())
    assert examples.targets.tolist() == [1.5, -2.0, 30.0]
    logits = torch.tensor([[1.0], [0.0], [30.0]])
    assert float(task.loss_of(logits, examples.targets)) == pytest.approx((0.25 + 4) / 3)
    assert task.metrics(logits, examples.targets)["mse"] == pytest.approx((0.25 + 4) / 3)
    assert task.decode(logits) == [{"score": 1.0}, {"score": 0.0}, {"score": 30.0}]


def test_a_new_head_starts_from_the_mean_of_the_targets():
    model = tiny("regression")
    examples = Regression().examples(scored_rows("1", "2", "6"), tokenizer())
    Regression().init_from_counts(model, examples)
    assert model.head.classifier.bias.item() == 3.0


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
    task = Regression.from_rows(scored_rows("1", "-1"), score_range=(-1.0, 1.0))
    with pytest.raises(RowErrors):
        task.examples(scored_rows("0", "1.5"), Words())
    assert task.examples(scored_rows("0", "1.5"), Words(), skip_bad_rows=True).num_skipped == 1
    assert task.decode(torch.tensor([[3.5]])) == [{"score": 3.5}]


def test_the_range_is_kept_and_one_that_is_none_is_refused():
    task = Regression(score_range=(0, 5))
    assert task.to_json() == {"task": "regression", "score_range": [0.0, 5.0]}
    assert task_from_json(task.to_json()).score_range == (0.0, 5.0)
    for wrong in ([0], "05", [5, 0], [0, float("nan")], [None, 5], 3):
        with pytest.raises(ModelFolderError, match="score_range"):
            task_from_json({"task": "regression", "score_range": wrong})


# -- Metrics ---------------------------------------------------------------------------------------------------------

pairs_of_bits = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=60)


@settings(max_examples=50)
@given(pairs_of_bits)
def test_binary_scores_equal_their_formulas_on_counts(rows):
    gold, predicted = np.array(rows).T
    tp = sum(1 for g, p in rows if g == p == 1)
    tn = sum(1 for g, p in rows if g == p == 0)
    fp = sum(1 for g, p in rows if (g, p) == (0, 1))
    fn = sum(1 for g, p in rows if (g, p) == (1, 0))
    assert metrics.accuracy(gold, predicted) == pytest.approx((tp + tn) / len(rows))
    assert metrics.f1(gold, predicted) == pytest.approx(2 * tp / (2 * tp + fp + fn) if tp else 0.0)
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    expected = (tp * tn - fp * fn) / math.sqrt(product) if product else 0.0
    assert metrics.matthews(gold, predicted) == pytest.approx(expected)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=40))
def test_correlations_are_finite_and_do_not_feel_shift_and_scale(rows):
    x, y = np.array(rows, dtype=float).T
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for correlation in (metrics.pearson, metrics.spearman):
            value = correlation(x, y)
            assert -1.0 - 1e-9 <= value <= 1.0 + 1e-9
            assert correlation(y, x) == pytest.approx(value)
            assert correlation(x, 3 * y + 7) == pytest.approx(value)
            assert correlation(x, -y) == pytest.approx(-value)


@pytest.mark.parametrize("correlation", [metrics.pearson, metrics.spearman])
@pytest.mark.parametrize(("gold", "predicted"), [([1, 2, 3], [0.1, 0.1, 0.1]), ([4, 4], [1, 2]), ([1], [1])])
def test_a_constant_side_correlates_with_nothing(correlation, gold, predicted):
    assert correlation(gold, predicted) == 0.0


def test_macro_f1_weighs_a_rare_class_as_a_frequent_one():
    gold = np.array([0] * 98 + [1, 1])
    always_frequent = np.zeros(100, dtype=int)
    assert metrics.accuracy(gold, always_frequent) == 0.98
    assert metrics.macro_f1(gold, always_frequent) == pytest.approx((2 * 98 / (2 * 98 + 2)) / 2)


def test_several_labels_must_all_agree_for_accuracy_and_count_singly_for_f1():
    gold = np.array([[1, 1, 0], [0, 0, 1]], dtype=bool)
    predicted = np.array([[1, 0, 0], [0, 0, 1]], dtype=bool)
    assert metrics.accuracy(gold, predicted) == 0.5
    assert metrics.micro_f1(gold, predicted) == pytest.approx(2 * 2 / (2 * 2 + 1))
    assert metrics.macro_f1(gold, predicted) == pytest.approx((1 + 0 + 1) / 3)


# -- Which class of a classifier of pairs a ranking is by ------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["entailment", "not_entailment"], 0),
        (["not_entailment", "entailment"], 1),
        (["Not Entailment", "ENTAILMENT"], 1),
        (["irrelevant", "relevant"], 1),
        (["Relevant", "Not-Relevant"], 0),
        (["match", "mismatch"], 0),
        (["match", "no_match"], 0),
        (["duplicate", "not_duplicate"], 0),
        (["not_equivalent", "equivalent"], 1),
        (["positive", "negative"], 0),
        (["0", "1"], 1),
        (["1.0", "0.0"], 0),
        (["-1", "1"], 1),
        (["no", "Yes"], 1),
        (["false", "TRUE"], 1),
        (["contradiction", "entailment", "neutral"], 1),
        (["ENTAILMENT", "NEUTRAL", "CONTRADICTION"], 0),
        (["score"], 0),
    ],
)
def test_the_class_is_found_by_its_name(labels, expected):
    assert relevant_class(labels) == expected


@pytest.mark.parametrize(
    "labels",
    [
        ["LABEL_0", "LABEL_1"],
        ["good", "bad"],
        ["1", "2"],
        ["not_entailment", "irrelevant"],
        ["yes", "true"],
        ["1", "2", "3", "4", "5"],
        ["negative", "neutral", "positive"],
        ["entailment", "Entailment", "neutral"],
    ],
)
def test_other_names_are_not_guessed(labels):
    assert relevant_class(labels) is None
    assert relevant_class(labels, labels[-1]) == len(labels) - 1


def rows(labels, second="b"):
    return [Row("a", second, label, line, "t") for line, label in enumerate(labels, 1)]


def test_training_on_pairs_writes_the_class():
    task = Classification.from_rows(rows(["relevant", "irrelevant"]))
    assert task.labels == ["irrelevant", "relevant"] and task.to_json()["relevant"] == "relevant"
    assert Classification.from_json(task.to_json()).relevant == "relevant"
    assert "relevant" not in Classification.from_rows(rows(["yes", "no"], None)).to_json()
    assert "relevant" not in Classification.from_rows(rows(["good", "bad"])).to_json()


@pytest.mark.parametrize("declared", ["great", 1])
def test_a_wrong_declaration_is_refused(declared):
    facts = {"task": "classification", "labels": ["bad", "good"], "relevant": declared}
    with pytest.raises(ModelFolderError, match="relevant"):
        Classification.from_json(facts)
