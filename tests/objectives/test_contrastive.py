"""Contrastive losses: values worked out by hand, gradients, and what they must not depend on."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from maskwright.objectives.losses import cosine_loss, in_batch_logits, in_batch_loss

FIRST = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
SECOND = torch.tensor([[0.6, 0.8], [0.0, 1.0]])


def test_the_cosine_loss_of_two_pairs_by_hand():
    # (0.5 - 1)^2 = 0.25 and (0.2 - 0)^2 = 0.04, their mean is 0.145
    loss = cosine_loss(torch.tensor([0.5, 0.2]), torch.tensor([1.0, 0.0]))
    assert loss.item() == pytest.approx(0.145)


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
    gold = torch.rand(5, generator=generator, dtype=torch.float64)
    positive = torch.tensor([True, False, True, True, False])

    def in_batch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return in_batch_loss(in_batch_logits(F.normalize(a, dim=-1), F.normalize(b, dim=-1)), positive)

    def cosine(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return cosine_loss(F.cosine_similarity(a, b), gold)

    assert torch.autograd.gradcheck(in_batch, (first, second))
    assert torch.autograd.gradcheck(cosine, (first, second))
