"""Risk and coverage by hand, and answers that are not given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import InputError
from maskwright.tasks.evaluation.calibration import abstain, risk_coverage


def test_a_curve_by_hand():
    """Right, wrong, right, wrong from the surest down: risks 0, 1/2, 1/3, 1/2."""
    curve = risk_coverage([0.9, 0.8, 0.7, 0.6], [True, False, True, False])
    assert curve.coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert curve.risk == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])
    assert curve.aurc == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert curve.best_aurc == pytest.approx((0 + 0 + 1 / 3 + 2 / 4) / 4)
    assert curve.at_risk(0.34) == {"risk": 0.34, "coverage": 0.75, "min_confidence": 0.7}
    assert curve.at_risk(0.0) == {"risk": 0.0, "coverage": 0.25, "min_confidence": 0.9}


def test_not_even_the_surest_may_be_good_enough():
    assert risk_coverage([0.9, 0.5], [False, True]).at_risk(0.1) == {
        "risk": 0.1, "coverage": 0.0, "min_confidence": None
    }  # fmt: skip


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
