"""Ensembles: the mean over models, its laws, and what does not fit together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from maskwright.core.errors import InputError
from maskwright.tasks.evaluation.metrics import mean_probabilities, mean_scores

logits = arrays.arrays(np.float64, (3, 4, 5), elements=st.floats(-20, 20))


def softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def test_the_mean_by_hand():
    one, two = [[0.9, 0.1], [0.4, 0.6]], [[0.5, 0.5], [0.2, 0.8]]
    assert mean_probabilities([one, two]) == pytest.approx(np.array([[0.7, 0.3], [0.3, 0.7]]))
    assert mean_scores([[1.0, 2.0], [3.0, 5.0]]) == pytest.approx(np.array([2.0, 3.5]))


@given(logits)
def test_a_mean_of_probabilities_is_one_and_lies_between_its_members(values):
    members = softmax(values)
    mean = mean_probabilities(list(members))
    assert mean.sum(axis=1) == pytest.approx(1)
    assert (mean >= members.min(axis=0) - 1e-9).all() and (mean <= members.max(axis=0) + 1e-9).all()
    assert mean == pytest.approx(mean_probabilities(list(members[::-1])))


@given(logits)
def test_the_log_loss_of_the_mean_is_at_most_the_mean_of_the_losses(values):
    """Jensen's inequality: why an ensemble is worth its price."""
    members = softmax(values)
    gold = np.arange(4)
    losses = [-np.log(member[gold, gold]).mean() for member in members]
    assert -np.log(mean_probabilities(list(members))[gold, gold]).mean() <= np.mean(losses) + 1e-9


def test_half_precision_is_averaged_in_double():
    member = softmax(np.random.default_rng(0).normal(size=(50, 77))).astype(np.float16)
    mean = mean_probabilities([member, member])
    assert mean.dtype == np.float64 and mean.sum(axis=1) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    "members, message",
    [
        ([], "at least one"),
        ([[[0.5, 0.5]], [[0.5, 0.5], [1.0, 0.0]]], "model 1 have the shape"),
        ([[[np.nan, 0.5]]], "model 0 contain a number that is not finite"),
        ([[[2.0, -1.0]]], "model 0 are not probabilities"),
        ([[[0.5, 0.6]]], "rows that sum to 1"),
        ([[0.5, 0.5]], "1 dimensions"),
    ],
)
def test_what_does_not_fit_is_refused(members, message):
    with pytest.raises(InputError, match=message):
        mean_probabilities(members)
