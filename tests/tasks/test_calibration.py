"""Temperature and calibration error, risk and coverage: golden values by hand, laws, and no answer that changes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import InputError, ModelFolderError
from maskwright.tasks.base import task_from_json
from maskwright.tasks.classification import Classification
from maskwright.tasks.evaluation.calibration import (
    LEAST,
    MOST,
    Decisions,
    Temperature,
    abstain,
    cross_entropy,
    cross_probabilities,
    fit_temperature,
    out_of_fold_probabilities,
    probabilities,
    risk_coverage,
)
from maskwright.tasks.evaluation.metrics import ece, ece_equal_mass
from maskwright.tasks.examples import Examples
from maskwright.tasks.tagging.task import Tagging
from tasks.standins import row


def overconfident(num=600, classes=3, factor=4.0, seed=0):
    """Decisions whose gold class is drawn from softmax(logits), told with logits that are `factor` times as large."""
    draw = np.random.Generator(np.random.PCG64(seed))
    logits = draw.normal(size=(num, classes)) * 1.5
    shares = probabilities(logits)
    gold = np.array([draw.choice(classes, p=share) for share in shares])
    return Decisions(logits * factor, gold, [f"row {place}" for place in range(num)])


def test_the_temperature_is_the_one_that_a_fine_grid_finds():
    decisions = overconfident()
    grid = np.exp(np.linspace(np.log(LEAST), np.log(MOST), 4001))
    best = grid[int(np.argmin([cross_entropy(decisions, value) for value in grid]))]
    assert fit_temperature(decisions).value == pytest.approx(best, rel=2e-3)


def test_a_temperature_by_hand():
    """Three of four right at a margin of m: the best probability of the right class is 3/4, so T = m / ln 3."""
    decisions = Decisions(np.array([[0.0, 5.0]] * 4), np.array([1, 1, 1, 0]), list("abcd"))
    assert fit_temperature(decisions).value == pytest.approx(5 / math.log(3), rel=1e-9)
    assert cross_entropy(decisions, 5 / math.log(3)) == pytest.approx(-(3 * math.log(0.75) + math.log(0.25)) / 4)


@pytest.mark.compatibility(
    "scikit-learn 1.9.1",
    theirs="log_loss clips by the type of the probabilities: a certain mistake costs 16 in float32 and 36 in float64",
    ours="Cross-entropy from logits in float64, without a limit",
)
def test_a_certain_mistake_costs_its_margin():
    decisions = Decisions(np.array([[60.0, 0.0]]), np.array([1]), ["a"])
    assert cross_entropy(decisions) == pytest.approx(60.0)


@pytest.mark.compatibility(
    "scikit-learn 1.9.1",
    theirs="With all rows right, the temperature is where a bounded search stops, and probabilities are exactly 1",
    ours="A fixed limit of 0.05, and a warning that the rows do not determine a temperature",
)
def test_rows_that_are_all_right_or_all_chance_do_not_determine_it():
    right = fit_temperature(Decisions(np.array([[0.0, 1.0]] * 3), np.array([1, 1, 1]), list("abc")))
    chance = fit_temperature(Decisions(np.array([[0.0, 1.0]] * 2), np.array([1, 0]), list("ab")))
    assert right.value == pytest.approx(LEAST) and right.is_at_limit
    assert chance.value == pytest.approx(MOST) and chance.is_at_limit
    assert not fit_temperature(overconfident()).is_at_limit
    with pytest.raises(InputError, match="labeled rows"):
        fit_temperature(Decisions(np.zeros((0, 2)), np.zeros(0, dtype=int), []))


@given(st.integers(0, 10_000), st.floats(LEAST, MOST))
def test_a_temperature_changes_no_answer(seed, value):
    logits = torch.randn(20, 4, generator=torch.Generator().manual_seed(seed)) * 5
    plain, warm = Classification(list("abcd")), Classification(list("abcd"))
    warm.temperature = Temperature(value)
    for one, other in zip(plain.decode(logits), warm.decode(logits), strict=True):
        assert one["label"] == other["label"]
        assert sum(other["probabilities"].values()) == pytest.approx(1.0)
    several, cool = Classification(list("abcd"), True), Classification(list("abcd"), True)
    cool.temperature = Temperature(value)
    answers = zip(several.decode(logits), cool.decode(logits), strict=True)
    assert all(one["labels"] == other["labels"] for one, other in answers)


def test_calibration_errors_by_hand():
    """Confidences 0.9, 0.9 (one right) and 0.6, 0.6 (both right): gaps 0.4 and 0.4, whatever the bins."""
    shares, gold = np.array([[0.1, 0.9], [0.1, 0.9], [0.4, 0.6], [0.4, 0.6]]), np.array([1, 0, 1, 1])
    assert ece(gold, shares) == pytest.approx(0.4)
    assert ece_equal_mass(gold, shares, bins=2) == pytest.approx(0.4)
    # One bin: mean confidence 0.75, accuracy 0.75.
    assert ece_equal_mass(gold, shares, bins=1) == pytest.approx(0.0, abs=1e-12)


@given(st.permutations(range(12)))
def test_the_order_of_rows_changes_no_error(order):
    draw = np.random.Generator(np.random.PCG64(5))
    shares = np.round(probabilities(draw.normal(size=(12, 2))), 1)  # rounded, so that some are equal
    gold = draw.integers(0, 2, 12)
    for error in (ece, ece_equal_mass):
        assert error(gold[list(order)], shares[list(order)]) == pytest.approx(error(gold, shares))


def test_rows_that_fitted_the_temperature_are_scored_by_that_of_the_other_half():
    decisions = overconfident(num=60)
    own = fit_temperature(decisions)
    crossed = out_of_fold_probabilities(decisions, own)
    assert np.array_equal(crossed, cross_probabilities(decisions))
    assert not np.allclose(crossed, probabilities(decisions.logits, own.value))
    foreign = Temperature(own.value, frozenset({"another row"}))
    assert np.array_equal(out_of_fold_probabilities(decisions, foreign), probabilities(decisions.logits, own.value))
    assert np.array_equal(out_of_fold_probabilities(decisions, None), probabilities(decisions.logits))


def test_rows_of_one_text_are_in_one_half():
    decisions = overconfident(num=40)
    twice = Decisions(np.tile(decisions.logits, (2, 1)), np.tile(decisions.gold, 2), list(decisions.keys) * 2)
    crossed = cross_probabilities(twice)
    assert np.allclose(crossed[:40], crossed[40:])
    alone = Decisions(decisions.logits[:2], decisions.gold[:2], ["same", "same"])
    assert np.array_equal(cross_probabilities(alone), probabilities(alone.logits))


def examples_of(decisions):
    rows = [row(f"text {place}", str(label)) for place, label in enumerate(decisions.gold)]
    return Examples([np.zeros(1)] * len(rows), None, torch.from_numpy(decisions.gold), rows)


def test_a_task_keeps_its_temperature_and_reports_less_error():
    decisions = overconfident()
    task, logits, examples = Classification(list("012")), torch.from_numpy(decisions.logits), examples_of(decisions)
    before = task.score(logits, examples).metrics
    task.calibrate(logits, examples)
    after = task.score(logits, examples).metrics
    assert after["ece"] < before["ece"] / 2
    assert {name: after[name] for name in ("accuracy", "macro_f1")} == {
        name: before[name] for name in ("accuracy", "macro_f1")
    }
    again = task_from_json(task.to_json())
    assert again.temperature == task.temperature and len(again.temperature.seen) == 600
    assert again.score(logits, examples).metrics == after


def test_a_model_without_classes_is_not_calibrated():
    from maskwright.tasks.regression import Regression

    with pytest.raises(InputError, match="no class probabilities"):
        Regression().calibrate(torch.zeros(1, 1), examples_of(overconfident(num=1)))


@pytest.mark.parametrize(
    "facts", [{"value": 0}, {"value": "2"}, {"value": float("inf")}, {"value": 1, "fitted_on": 3}, 7]
)
@pytest.mark.parametrize("task", [Classification(["a", "b"]), Tagging(["A", "B"])])
def test_a_temperature_that_is_none_is_refused(facts, task):
    with pytest.raises(ModelFolderError, match="temperature"):
        task_from_json({**task.to_json(), "temperature": facts})


# -- risk and coverage, and answers that are not given ----------------------------------------------------------------


def test_a_curve_by_hand():
    """Right, wrong, right, wrong from the surest down: risks 0, 1/2, 1/3, 1/2."""
    curve = risk_coverage([0.9, 0.8, 0.7, 0.6], [True, False, True, False])
    assert curve.coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert curve.risk == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])
    assert curve.aurc == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert curve.best_aurc == pytest.approx((0 + 0 + 1 / 3 + 2 / 4) / 4)
    assert curve.at_risk(0.34) == {"risk": 0.34, "coverage": 0.75, "min_confidence": 0.7}
    assert curve.at_risk(0.0) == {"risk": 0.0, "coverage": 0.25, "min_confidence": 0.9}


def test_rows_of_one_confidence_are_answered_together_and_their_order_is_nothing():
    one = risk_coverage([0.5, 0.5, 0.5, 0.5], [True, False, False, True])
    other = risk_coverage([0.5, 0.5, 0.5, 0.5], [False, False, True, True])
    assert one.coverage.tolist() == [1.0] and one.aurc == other.aurc == pytest.approx(0.5)


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=40))
def test_the_last_risk_is_the_error_rate_and_no_order_beats_the_best(rows):
    sure, right = [level / 9 for level, _ in rows], [is_right for _, is_right in rows]
    curve = risk_coverage(sure, right)
    assert curve.risk[-1] == pytest.approx(1 - np.mean(right))
    assert curve.best_aurc - 1e-12 <= curve.aurc <= 1
    found = curve.at_risk(float(curve.risk[-1]))
    assert found["coverage"] == 1.0
    for wanted in (0.0, 0.1, 0.5):
        least = curve.at_risk(wanted)["min_confidence"]
        if least is not None:
            kept = [is_right for level, is_right in zip(sure, right, strict=True) if level >= least]
            assert 1 - np.mean(kept) <= wanted + 1e-9


def test_what_cannot_be_a_curve_or_a_risk():
    with pytest.raises(InputError, match="one confidence"):
        risk_coverage([], [])
    with pytest.raises(InputError, match="one confidence"):
        risk_coverage([0.5], [True, False])
    with pytest.raises(InputError, match="from 0 to 1"):
        risk_coverage([0.5], [True]).at_risk(2)


def test_an_answer_below_the_least_confidence_is_none():
    answer = {"label": "a", "score": 0.6, "probabilities": {"a": 0.6, "b": 0.4}}
    assert abstain(answer, 0.7) == {**answer, "label": None, "abstained": True}
    assert abstain(answer, 0.6) == {**answer, "abstained": False}
    several = {"labels": ["a"], "probabilities": {"a": 0.95, "b": 0.3}}
    assert abstain(several, 0.8)["labels"] is None  # b is not there with 0.7 alone
    assert abstain(several, 0.7)["labels"] == ["a"]
