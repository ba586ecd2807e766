"""Focal loss: the cross-entropy at gamma 0, the values of the paper's formula, and slopes that are finite."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from maskwright.objectives.losses import focal_binary, focal_cross_entropy
from maskwright.tasks.classification import Classification

LOGITS = torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 3
CLASSES = torch.tensor([0, 1, 2, 2, 1, 0])
SEVERAL = torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=torch.float64)


def test_without_gamma_it_is_the_cross_entropy():
    assert torch.allclose(focal_cross_entropy(LOGITS, CLASSES, 0.0), F.cross_entropy(LOGITS, CLASSES, reduction="none"))
    binary = F.binary_cross_entropy_with_logits(LOGITS, SEVERAL, reduction="none")
    assert torch.allclose(focal_binary(LOGITS, SEVERAL, 0.0), binary)
    weights = torch.tensor([2.0, 5.0, 0.5], dtype=torch.float64)
    weighed = F.binary_cross_entropy_with_logits(LOGITS, SEVERAL, reduction="none", pos_weight=weights)
    assert torch.allclose(focal_binary(LOGITS, SEVERAL, 0.0, weights), weighed)


@pytest.mark.parametrize(
    ("probability", "gamma", "expected"),
    [
        (0.9, 2.0, 0.01 * -math.log(0.9)),  # the paper: a hundred times less than the cross-entropy
        (0.5, 2.0, 0.25 * math.log(2)),
        (0.1, 2.0, 0.81 * -math.log(0.1)),
        (0.5, 0.5, math.sqrt(0.5) * math.log(2)),
    ],
)
def test_values_by_hand(probability: float, gamma: float, expected: float):
    logit = math.log(probability / (1 - probability))
    two = torch.tensor([[0.0, logit]], dtype=torch.float64)
    assert float(focal_cross_entropy(two, torch.tensor([1]), gamma)) == pytest.approx(expected)
    one = torch.tensor([[logit]], dtype=torch.float64)
    assert float(focal_binary(one, torch.ones(1, 1, dtype=torch.float64), gamma)) == pytest.approx(expected)
    assert float(focal_binary(-one, torch.zeros(1, 1, dtype=torch.float64), gamma)) == pytest.approx(expected)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 5.0])
def test_gradients_are_those_of_the_formula(gamma: float):
    logits = LOGITS.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: focal_cross_entropy(x, CLASSES, gamma).sum(), (logits,))
    assert torch.autograd.gradcheck(lambda x: focal_binary(x, SEVERAL, gamma).sum(), (logits,))


@given(st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([-200.0, -40.0, 40.0, 200.0]))
def test_a_row_that_is_sure_has_a_finite_loss_and_slope(gamma: float, logit: float):
    for loss in (
        lambda x: focal_cross_entropy(torch.cat([torch.zeros_like(x), x], dim=1), torch.tensor([1]), gamma),
        lambda x: focal_binary(x, torch.ones(1, 1), gamma),
    ):
        value = torch.tensor([[logit]], requires_grad=True)
        total = loss(value).sum()
        total.backward()
        assert bool(torch.isfinite(total)) and bool(torch.isfinite(value.grad).all())


def test_a_classifier_uses_it_with_its_class_weights():
    task = Classification(["a", "b", "c"], class_weights=[1.0, 2.0, 3.0], focal=2.0)
    weights = torch.tensor([1.0, 2.0, 3.0])
    logits = LOGITS.float()
    expected = (focal_cross_entropy(logits, CLASSES, 2.0) * weights[CLASSES]).mean()
    assert torch.allclose(task.loss_of(logits, CLASSES), expected)
    several = Classification(["a", "b", "c"], True, [1.0, 2.0, 3.0], focal=2.0)
    assert torch.allclose(
        several.loss_of(logits, SEVERAL.float()), focal_binary(logits, SEVERAL.float(), 2.0, weights).mean()
    )
    plain, none = Classification(["a", "b", "c"]), Classification(["a", "b", "c"], focal=0.0)
    assert torch.allclose(plain.loss_of(logits, CLASSES), none.loss_of(logits, CLASSES))
