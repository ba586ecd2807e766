"""Metrics: equal to their formulas, fractions, and defined for every input."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.tasks.evaluation import metrics

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


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=50))
def test_calibration_error_is_a_fraction(rows):
    probabilities = np.array([[p, 1 - p] for p, _ in rows])
    assert 0.0 <= metrics.ece([label for _, label in rows], probabilities) <= 1.0
