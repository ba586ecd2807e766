"""Paired tests: known values, symmetry, reproducibility, and the rate of false alarms that they promise."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from maskwright.core.errors import InputError
from maskwright.tasks.evaluation import metrics
from maskwright.tasks.evaluation.compare import bootstrap_metric, bootstrap_scores, mcnemar


def answers(
    only_first: int, only_second: int, both: int, neither: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(gold, first, second) with these numbers of right rows."""
    first = np.repeat([1, 0, 1, 0], [only_first, only_second, both, neither])
    second = np.repeat([0, 1, 1, 0], [only_first, only_second, both, neither])
    return np.ones_like(first), first, second


@pytest.mark.parametrize("a, b", [(0, 1), (1, 5), (10, 2), (7, 7), (0, 10), (30, 12)])
def test_mcnemar_is_the_two_sided_toss_of_a_coin(a, b):
    result = mcnemar(*answers(a, b, both=20, neither=3))
    tail = sum(comb(a + b, k) for k in range(min(a, b) + 1)) / 2 ** (a + b)
    assert (result.only_first, result.only_second) == (a, b)
    assert result.p_value == pytest.approx(min(1.0, 2 * tail))


def test_two_wrong_answers_that_differ_are_both_wrong():
    result = mcnemar(["a", "a"], ["b", "a"], ["c", "a"])
    assert (result.only_first, result.only_second) == (0, 0)


def test_the_bootstrap_sees_a_large_difference_and_no_small_one():
    gold, first, second = answers(60, 10, 130)
    large = bootstrap_scores(first == gold, second == gold, samples=2000)
    assert large.difference == pytest.approx(0.25) and large.p_value < 0.01 and large.is_significant
    assert 0 < large.low < 0.25 < large.high
    gold, first, second = answers(6, 5, 189)
    small = bootstrap_scores(first == gold, second == gold, samples=2000)
    assert small.p_value > 0.5 and small.low < 0 < small.high and not small.is_significant


def test_exchanging_the_models_changes_the_sign_alone():
    random = np.random.default_rng(1)
    a, b = random.normal(size=50), random.normal(size=50)
    one, two = bootstrap_scores(a, b, samples=500), bootstrap_scores(b, a, samples=500)
    assert one.p_value == two.p_value
    assert (one.difference, one.low, one.high) == pytest.approx((-two.difference, -two.high, -two.low))


def test_the_seed_decides_and_blocks_do_not(monkeypatch):
    random = np.random.default_rng(2)
    a, b = random.normal(size=30), random.normal(size=30)
    one = bootstrap_scores(a, b, samples=300, seed=5)
    assert bootstrap_scores(a, b, samples=300, seed=6) != one
    monkeypatch.setattr("maskwright.tasks.evaluation.compare._INDICES_AT_ONCE", 70)
    assert bootstrap_scores(a, b, samples=300, seed=5) == one


def test_the_interval_of_a_mean_is_that_of_the_normal_law():
    random = np.random.default_rng(3)
    gaps = random.normal(0.3, 1.0, size=400)
    result = bootstrap_scores(gaps, np.zeros(400), samples=4000)
    error = gaps.std() / 20
    assert result.low == pytest.approx(gaps.mean() - 1.96 * error, abs=0.15 * error)
    assert result.high == pytest.approx(gaps.mean() + 1.96 * error, abs=0.15 * error)


def test_metrics_over_all_rows_are_compared():
    random = np.random.default_rng(4)
    gold = random.normal(size=80)
    near, far = gold + random.normal(size=80) * 0.1, gold + random.normal(size=80) * 2
    result = bootstrap_metric(metrics.pearson, gold, near, far, samples=200)
    assert result.difference > 0.3 and result.is_significant and (result.num_rows, result.num_samples) == (80, 200)


def test_false_alarms_come_as_often_as_promised():
    """Equal models, 200 times: about 5 % below 0.05 for the bootstrap, at most that for the exact test."""
    random = np.random.default_rng(5)
    alarms = np.zeros(2)
    for trial in range(200):
        first, second = random.random((2, 100)) < 0.8
        alarms[0] += bootstrap_scores(first, second, samples=200, seed=trial).p_value < 0.05
        alarms[1] += mcnemar(np.ones(100, bool), first, second).p_value < 0.05
    assert 0.01 <= alarms[0] / 200 <= 0.11
    assert alarms[1] / 200 <= 0.08


@pytest.mark.parametrize(
    "first, second, settings, message",
    [
        ([1.0], [1.0, 2.0], {}, "numbers of rows differ: 1, 2"),
        ([], [], {}, "no rows"),
        ([np.nan], [1.0], {}, "one finite number for each row"),
        ([[1.0]], [[1.0]], {}, "one finite number for each row"),
        ([1.0], [1.0], {"samples": 0}, "At least one"),
        ([1.0], [1.0], {"confidence": 1.0}, "between 0 and 1"),
    ],
)
def test_what_does_not_fit_is_refused(first, second, settings, message):
    with pytest.raises(InputError, match=message):
        bootstrap_scores(first, second, **settings)


def test_labels_of_other_rows_are_refused():
    with pytest.raises(InputError, match="numbers of rows differ"):
        mcnemar([1, 1], [1, 1], [1])
    with pytest.raises(InputError, match="numbers of rows differ"):
        bootstrap_metric(metrics.accuracy, [1, 1], [1, 1], [1])
