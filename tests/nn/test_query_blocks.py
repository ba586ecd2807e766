"""Queries in blocks: the numbers and gradients of the whole product, whatever the size of a block."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.nn import attention
from maskwright.nn.attention import Run, attend, attend_in_blocks, scaled_dot_product


def drawn(count: int, heads: int, tokens: int, head_dim: int) -> list[torch.Tensor]:
    draws = torch.Generator().manual_seed(0)
    size = (count, heads, tokens, head_dim)
    return [torch.randn(size, generator=draws, dtype=torch.float64).requires_grad_() for _ in range(3)]


@settings(max_examples=60)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 17), st.booleans(), st.integers(1, 400))
def test_context_and_gradients_are_those_of_the_whole_product(count, heads, tokens, causal, most):
    tensors = drawn(count, heads, tokens, 4)
    whole, _ = scaled_dot_product(*tensors, causal=causal)
    blocks = attend_in_blocks(*tensors, 0.0, causal, most)
    torch.testing.assert_close(blocks, whole)
    towards = torch.randn_like(whole)
    expected = torch.autograd.grad(whole, tensors, towards)
    torch.testing.assert_close(torch.autograd.grad(blocks, tensors, towards), expected)


def test_the_backward_pass_drops_what_the_forward_pass_dropped():
    query, key, value = drawn(1, 2, 6, 6)
    torch.manual_seed(3)
    context = attend_in_blocks(query, key, value, 0.5, False, 24)
    towards = torch.randn_like(context)
    torch.manual_seed(3)
    weights = attend_in_blocks(query, key, torch.eye(6, dtype=torch.float64).expand(1, 2, 6, 6), 0.5, False, 24)
    assert 0.2 < (weights == 0).double().mean() < 0.8
    torch.testing.assert_close(context, weights @ value)
    (gradient,) = torch.autograd.grad(context, value, towards)
    torch.testing.assert_close(gradient, weights.mT @ towards)


@pytest.mark.parametrize("causal", [False, True])
def test_only_training_on_long_sequences_goes_in_blocks(causal, monkeypatch):
    monkeypatch.setattr(attention, "LONG_SCORES", 2 * 20 * 20 - 1)
    monkeypatch.setattr(attention, "CACHED_SCORES", 2 * 20 * 7)
    seen = []

    def noted(*arguments):
        seen.append(arguments[0].shape)
        return attend_in_blocks(*arguments)

    monkeypatch.setattr(attention, "attend_in_blocks", noted)
    qkv = torch.randn(39, 24, dtype=torch.float64)
    runs = [Run(0, 1, 19), Run(19, 1, 20)]
    expected, _ = attend(qkv, runs, 2, fused=False, causal=causal)
    assert not seen  # nothing is kept for a backward pass
    found, _ = attend(qkv.requires_grad_(), runs, 2, fused=False, causal=causal)
    assert seen == [(1, 2, 20, 4)]
    torch.testing.assert_close(found, expected)
    _, weights = attend(qkv, runs, 2, want_weights=True, causal=causal)
    assert len(seen) == 1 and weights[1].shape == (2, 20, 20)
