"""Scores of attention between two recurrent networks: each is its formula, by hand and by random numbers."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from maskwright.nn.attention import group_of
from maskwright.nn.cross import Alignment, ScoreName
from nn.packs import draw

H, C = torch.tensor([1.0, 2.0]), torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]])  # one query, three tokens


def filled(score: str, size: int = 2, seed: int = 0) -> Alignment:
    made, source = Alignment(score, size).double(), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(0, 0.7, generator=source)
    return made


def by_hand(score: str, own: Alignment, h: Tensor, c: Tensor) -> Tensor:
    """e of one query and one token, as the lectures write it."""
    both = torch.cat([h, c])
    if score == "dot":
        return h @ c
    if score == "bilinear":
        return h @ own.W.weight @ c
    if score == "mlp":
        return own.w_2.weight[0] @ torch.tanh(own.W_1.weight @ both)
    return torch.tanh(own.w_a.weight[0] @ both)


def test_dot_products_weights_and_context_by_hand():
    own = Alignment("dot", 2)
    context, weights = own(H.view(1, 1, 2), own.prepare(C, group_of([3])))
    total = math.exp(1) + math.exp(2) + math.exp(1)  # scores 1, 2 and 1
    expected = [math.exp(1) / total, math.exp(2) / total, math.exp(1) / total]
    assert weights.flatten().tolist() == pytest.approx(expected, abs=1e-6)
    assert context.flatten().tolist() == pytest.approx([0.0, expected[1] + expected[2]], abs=1e-6)


def test_the_other_scores_by_hand():
    own = Alignment("bilinear", 2)
    own.W.weight.data = torch.tensor([[0.0, 1.0], [1.0, 0.0]])  # h . (C turned round)
    assert scored(own).tolist() == pytest.approx([2.0, 1.0, -1.0])
    own = Alignment("mlp", 2)
    own.W_1.weight.data = torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])  # (h_1 + c_1, c_2)
    own.w_2.weight.data = torch.tensor([[2.0, 1.0]])
    expected = [2 * math.tanh(2), 2 * math.tanh(1) + math.tanh(1), math.tanh(1)]
    assert scored(own).tolist() == pytest.approx(expected, abs=1e-6)
    own = Alignment("additive", 2)
    own.w_a.weight.data = torch.tensor([[0.5, 0.0, 1.0, 0.0]])
    assert scored(own).tolist() == pytest.approx([math.tanh(1.5), math.tanh(0.5), math.tanh(-0.5)], abs=1e-6)


def scored(own: Alignment) -> Tensor:
    return own.scores(H.view(1, 1, 2), own.prepare(C, group_of([3])).keys).detach().flatten()


@pytest.mark.parametrize("score", get_args(ScoreName))
@settings(max_examples=15, deadline=None)
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4), queries=st.integers(1, 3), seed=st.integers(0, 99))
def test_a_score_is_its_formula_and_padding_takes_nothing(score: str, lengths: list[int], queries: int, seed: int):
    own, vectors = filled(score, 3, seed), draw(sum(lengths), 3, seed=seed)
    asking = draw(len(lengths) * queries, 3, seed=seed + 1).view(len(lengths), queries, 3)
    context, weights = own(asking, own.prepare(vectors, group_of(lengths)))
    for text, part in enumerate(vectors.split(lengths)):
        for number, h in enumerate(asking[text]):
            e = torch.stack([by_hand(score, own, h, c) for c in part])
            a = torch.softmax(e, dim=0)
            torch.testing.assert_close(weights[text, number, : len(part)], a)
            assert not weights[text, number, len(part) :].any()
            torch.testing.assert_close(context[text, number], (a[:, None] * part).sum(dim=0))


def test_one_layer_alone_cannot_tell_tokens_far_apart():
    own, vectors = filled("additive", 4), 50 * draw(6, 4)
    with torch.no_grad():
        _, weights = own(draw(1, 4).view(1, 1, 4), own.prepare(vectors, group_of([6])))
    assert float(weights.max() / weights.min()) <= math.exp(2) + 1e-9
