"""Attention: the formula, the two executors, and what no sequence may do to another."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.nn import attention
from maskwright.nn.attention import Run, SelfAttention, attend, scaled_dot_product, self_attention
from nn import packs
from nn.packs import runs_of

draw = partial(packs.draw, dtype=torch.float32)


# -- without parameters ------------------------------------------------------------------------------------------


def test_basic_self_attention_is_the_weighted_sum_of_the_formula():
    x = draw(4, 3)
    for i in range(4):
        scores = [float(torch.dot(x[i], x[j])) for j in range(4)]
        total = sum(math.exp(score) for score in scores)
        expected = sum(math.exp(score) / total * x[j] for j, score in enumerate(scores))
        torch.testing.assert_close(self_attention(x)[i], expected)


# -- scaled dot product ------------------------------------------------------------------------------------------


def test_four_tokens_checked_by_hand():
    # d = 4, so the scale is 1/2. Query 0 is 2 * e0, keys are the unit vectors: scores 1, 0, 0, 0.
    query, key = 2 * torch.eye(4), torch.eye(4)
    value = torch.tensor([[1.0, 0, 0, 0], [0, 2, 0, 0], [0, 0, 3, 0], [0, 0, 0, 4]])
    context, weights = scaled_dot_product(query, key, value)
    own, other = math.e / (math.e + 3), 1 / (math.e + 3)
    expected = torch.full((4, 4), other) + (own - other) * torch.eye(4)
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(context, expected @ value, rtol=0, atol=1e-6)


# -- executors over packs ----------------------------------------------------------------------------------------

lengths = st.lists(st.integers(1, 12), min_size=1, max_size=8)


@given(lengths, st.sampled_from([1, 2, 4]))
def test_explicit_and_fused_agree_forward_and_backward(lengths, heads):
    x = draw(sum(lengths), 3 * 16)
    gradients, contexts = [], []
    for fused in (True, False):
        qkv = x.clone().requires_grad_()
        context, _ = attend(qkv, runs_of(lengths), heads, fused=fused)
        context.backward(draw(sum(lengths), 16, seed=9))
        contexts.append(context.detach())
        gradients.append(qkv.grad)
    torch.testing.assert_close(contexts[0], contexts[1], rtol=0, atol=1e-5)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-5)


@given(lengths)
def test_a_pack_is_its_sequences_one_by_one(lengths):
    x = draw(sum(lengths), 3 * 8, dtype=torch.float64)
    packed, _ = attend(x, runs_of(lengths), 2)
    alone = [attend(part, [Run(0, 1, len(part))], 2)[0] for part in x.split(lengths)]
    torch.testing.assert_close(packed, torch.cat(alone), rtol=0, atol=1e-12)


def test_weights_come_one_per_sequence_in_order():
    lengths = [3, 3, 2, 5]
    x = draw(13, 3 * 8)
    context, weights = attend(x, runs_of(lengths), 2, want_weights=True)
    assert [tuple(one.shape) for one in weights] == [(2, n, n) for n in lengths]
    values = x[:, 16:].view(13, 2, 4).split(lengths)
    again = [torch.einsum("hij,jhd->ihd", w, v).reshape(-1, 8) for w, v in zip(weights, values, strict=True)]
    torch.testing.assert_close(context, torch.cat(again))


@pytest.mark.parametrize("dropped", [0.0, 0.5])
def test_working_in_parts_changes_nothing_but_the_cost(monkeypatch, dropped):
    x, runs = draw(8 * 6, 3 * 8), [Run(0, 8, 6)]
    whole, _ = attend(x, runs, 2, fused=False)
    monkeypatch.setattr(attention, "CACHED_SCORES", 2 * 6 * 6 * 3)  # three sequences at a time: 3 + 3 + 2
    parts, weights = attend(x, runs, 2, want_weights=True, dropout_probability=dropped)
    assert len(weights) == 8
    if not dropped:
        torch.testing.assert_close(parts, whole)


def test_an_empty_pack_stays_empty():
    context, weights = attend(draw(0, 24), [], 2, want_weights=True)
    assert context.shape == (0, 8) and weights == ()


def test_dropout_on_weights_keeps_the_expectation():
    torch.manual_seed(0)
    x, runs = draw(20, 3 * 8), [Run(0, 1, 20)]
    exact, _ = attend(x, runs, 2)
    mean = torch.stack([attend(x, runs, 2, dropout_probability=0.3)[0] for _ in range(4000)]).mean(0)
    torch.testing.assert_close(mean, exact, rtol=0, atol=0.05)


def test_returned_weights_are_those_before_dropout():
    x, runs = draw(10, 3 * 8), [Run(0, 2, 5)]
    _, exact = attend(x, runs, 2, want_weights=True)
    _, training = attend(x, runs, 2, want_weights=True, dropout_probability=0.5)
    for one, other in zip(exact, training, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


# -- heads -------------------------------------------------------------------------------------------------------


def test_a_head_is_one_block_of_the_concatenation():
    heads, head_dim = 8, 64
    module = packs.filled(SelfAttention(512, heads, 0.0), spread=0.3, dtype=torch.float32)
    assert module.out.weight.shape == (512, 8 * 64)
    hidden = draw(5, 512)
    query, key, value = module.qkv(hidden).split(512, dim=1)
    blocks = []
    for head in range(heads):
        part = slice(head * head_dim, (head + 1) * head_dim)
        blocks.append(scaled_dot_product(query[:, part], key[:, part], value[:, part])[0])
    expected = module.out(torch.cat(blocks, dim=1))
    torch.testing.assert_close(module(hidden, [Run(0, 1, 5)])[0], expected, rtol=1e-4, atol=1e-4)


def test_half_precision_stays_close():
    module = packs.filled(SelfAttention(32, 4, 0.0), spread=0.3, dtype=torch.float32)
    hidden = draw(12, 32)
    exact, _ = module(hidden, [Run(0, 2, 6)])
    half, _ = module(hidden.bfloat16(), [Run(0, 2, 6)])
    assert half.dtype == torch.bfloat16 and module.qkv.weight.dtype == torch.float32
    torch.testing.assert_close(half.float(), exact, rtol=0.05, atol=0.05)
