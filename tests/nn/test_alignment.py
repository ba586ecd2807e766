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
