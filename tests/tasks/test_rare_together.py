"""A threshold for a rare class combined with temperatures, ensembles, windows and comparisons."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError, InputError
from maskwright.tasks.anomaly import Anomaly
from maskwright.tasks.classification import Classification
from maskwright.tasks.evaluation import compare as comparison
from maskwright.tasks.evaluation.calibration import Temperature
from maskwright.tasks.evaluation.compare import compare
from maskwright.tasks.evaluation.rare import RareClass, Threshold
from maskwright.tasks.evaluation.report import curve_of
from maskwright.tasks.examples import Examples
from maskwright.text.readers.tables import Row
from tasks.standins import Words


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setattr(comparison, "SAMPLES", 200)


def rows_of(labels):
    return [Row(f"text {number}", None, label, number, "rows.tsv") for number, label in enumerate(labels, start=1)]


def some_logits(rows=40, classes=3, seed=0):
    return torch.tensor(np.random.default_rng(seed).normal(size=(rows, classes)), dtype=torch.float32)


def classifier(labels=("a", "b", "c"), cut=0.2, multi_label=False, temperature=None, seen=()):
    task = Classification(
        labels, multi_label, rare=RareClass(labels[-1], True, threshold=Threshold(cut, frozenset(seen)))
    )
    task.temperature = None if temperature is None else Temperature(temperature)
    return task


@settings(max_examples=40, deadline=None)
@given(st.floats(0.05, 20.0), st.floats(0.01, 0.99), st.booleans(), st.integers(0, 100))
def test_no_temperature_changes_an_answer(temperature, cut, multi_label, seed):
    logits = some_logits(seed=seed)
    name = "labels" if multi_label else "label"
    raw = classifier(cut=cut, multi_label=multi_label).decode(logits)
    warm = classifier(cut=cut, multi_label=multi_label, temperature=temperature).decode(logits)
    assert [answer[name] for answer in raw] == [answer[name] for answer in warm]


def test_a_threshold_chosen_after_calibration_is_the_one_chosen_before():
    logits, gold = some_logits(classes=2), ["a", "b", "a", "a"] * 10
    first, second = (Classification(["a", "b"], rare=RareClass("b", True)) for _ in range(2))
    examples = first.examples(rows_of(gold), Words())
    first.tune_threshold(logits, examples)
    first.calibrate(logits, examples)
    second.calibrate(logits, examples)
    second.tune_threshold(logits, examples)
    assert first.to_json() == second.to_json()
    assert first.temperature is not None and first.temperature.value != 1.0
    unlike = {"ece", "ece_equal_mass"}
    before = Classification(["a", "b"], rare=first.rare).score(logits, examples).metrics
    after = first.score(logits, examples).metrics
    assert {k: v for k, v in before.items() if k not in unlike} == {k: v for k, v in after.items() if k not in unlike}


@settings(max_examples=25, deadline=None)
@given(st.floats(0.3, 5.0), st.floats(0.05, 0.95), st.booleans())
def test_an_ensemble_of_one_model_twice_answers_as_it_does(temperature, cut, multi_label):
    labels = ("a", "b", "c") if multi_label else ("a", "b")
    task = classifier(labels, cut, multi_label, temperature)
    logits = some_logits(classes=len(labels))
    joined = task.joined([task])
    joined.temperature = None  # as inference.ensemble does: each member's logits are divided by its own
    united = joined.combine_predictions([logits / temperature] * 2, [None, None])
    name = "labels" if multi_label else "label"
    assert [answer[name] for answer in joined.decode(united)] == [answer[name] for answer in task.decode(logits)]


def test_an_ensemble_has_the_mean_of_the_thresholds_or_none_and_says_so(capsys):
    first, second = classifier(cut=0.2, seen="x"), classifier(cut=0.4, seen="y")
    joined = first.joined([second])
    assert joined.rare.threshold.value == pytest.approx(0.3) and joined.rare.threshold.seen == {"x", "y"}
    assert first.rare.threshold.value == 0.2
    assert not capsys.readouterr().err
    for other in (Classification(["a", "b", "c"]), classifier(temperature=2.0)):
        alone = first.joined([other])
        assert alone.rare == RareClass("c") and "no comparable thresholds" in capsys.readouterr().err
        logits = some_logits()
        assert alone.decide(logits).tolist() == logits.argmax(dim=1).tolist()


def test_confidence_on_the_risk_curve_is_that_of_what_is_answered():
    task = classifier(("a", "b"), cut=0.1)
    logits = torch.tensor([[0.8, 0.2], [0.7, 0.3], [0.95, 0.05]]).log()
    examples = task.examples(rows_of("bba"), Words())
    curve = curve_of(task.decisions(logits, examples), None)
    assert curve.confidence == pytest.approx([0.95, 0.3, 0.2]) and curve.risk.tolist() == [0, 0, 0]


def test_a_model_with_a_rare_class_is_compared_by_it_with_one_without():
    gold = (["a"] * 9 + ["b"]) * 6
    right = torch.tensor([[0.0, 3.0 if label == "b" else -3.0] for label in gold])
    first, second = classifier(("a", "b"), 0.3).on_equal_terms(Classification(["a", "b"]))
    examples = first.examples(rows_of(gold), Words())
    found = compare(first.rate(right, examples), second.rate(some_logits(60, 2), examples))
    assert found.metric == "pr_auc" and found.first == 1.0 > found.second and found.is_significant
    with pytest.raises(InputError, match="Unknown class 'c'"):
        classifier().on_equal_terms(Classification(["a", "b"]))


def test_a_metric_that_is_named_goes_before_that_of_rare_classes():
    rows = rows_of(["a"] * 19 + ["b"])
    assert Classification.from_rows(rows).main_metric == "macro_f1"
    chosen = Classification.from_rows(rows, threshold_for="b")
    assert chosen.main_metric == "pr_auc"
    for metric in ("accuracy", "recall_at_precision_90", "f1"):
        chosen.choose_by(metric)
        assert chosen.main_metric == metric
    with pytest.raises(ConfigError, match="pr_auc"):
        Classification(["a", "b", "c"], rare=RareClass("c")).choose_by("ece")


def test_detectors_are_combined_by_the_mean_of_errors_and_thresholds():
    first, second = Anomaly("a", threshold=Threshold(1.0)), Anomaly("a", threshold=Threshold(3.0))
    joined = first.joined([second])
    united = joined.combine_predictions([torch.tensor([[0.0], [4.0]]), torch.tensor([[1.0], [2.0]])], [None, None])
    assert [answer["is_rare"] for answer in joined.decode(united)] == [False, True]
    assert joined.threshold.value == 2.0 and first.threshold.value == 1.0
    with pytest.raises(InputError, match="different normal classes"):
        first.joined([Anomaly("b")])


def test_detectors_are_compared_by_how_they_rank():
    task = Anomaly("a", threshold=Threshold(0.5))
    examples = task.examples(rows_of("aaab" * 10), Words())
    assert isinstance(examples, Examples)
    errors = torch.tensor([[0.1], [0.2], [0.1], [0.9]] * 10)
    found = compare(task.rate(errors, examples), task.rate(1 - errors, examples))
    assert found.metric == "pr_auc" and found.first == 1.0 and found.is_significant and found.mcnemar is not None
    normal = task.examples(rows_of("aaaa" * 10), Words())
    assert task.rate(errors, normal).metric == "explained_variance"
    with pytest.raises(InputError, match="'a' as normal and the other 'b'"):
        task.on_equal_terms(Anomaly("b"))
