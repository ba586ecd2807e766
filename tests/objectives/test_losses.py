"""Focal loss: the cross-entropy at gamma 0, the values of the paper's formula, and slopes that are finite."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from maskwright.objectives.outcome import focal_binary, focal_cross_entropy, in_batch_logits, in_batch_loss

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


# -- Contrastive losses: values worked out by hand, gradients, and what they must not depend on -----------------------

FIRST = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
SECOND = torch.tensor([[0.6, 0.8], [0.0, 1.0]])


def test_the_in_batch_loss_of_two_pairs_by_hand():
    # At temperature 0.5 the first text scores 1.2 and 0, the second 1.6 and 2: -log of the partner's share.
    logits = in_batch_logits(FIRST, SECOND, temperature=0.5)
    assert torch.allclose(logits, torch.tensor([[1.2, 0.0], [1.6, 2.0]]))
    by_hand = math.log(1 + math.exp(-1.2)) + math.log(1 + math.exp(-0.4))
    assert in_batch_loss(logits, torch.tensor([True, True])).item() == pytest.approx(by_hand)


def test_the_same_text_again_is_no_wrong_answer():
    logits = in_batch_logits(FIRST, SECOND, torch.tensor([7, 7]), temperature=0.5)
    assert in_batch_loss(logits, torch.tensor([True, True])).item() == 0.0
    three = in_batch_logits(FIRST[[0, 1, 0]], SECOND[[0, 1, 0]], torch.tensor([0, 1, 0]), temperature=0.5)
    loss = in_batch_loss(three, torch.tensor([True, False, False]))
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-1.2))), "as without its twin"


def test_gradients_are_those_of_finite_differences():
    generator = torch.Generator().manual_seed(1)
    first, second = (torch.randn(5, 4, generator=generator, dtype=torch.float64, requires_grad=True) for _ in "ab")
    positive = torch.tensor([True, False, True, True, False])

    def in_batch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return in_batch_loss(in_batch_logits(F.normalize(a, dim=-1), F.normalize(b, dim=-1)), positive)

    assert torch.autograd.gradcheck(in_batch, (first, second))
