"""Padded groups of runs give the numbers and gradients of the runs, and keep sequences apart."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.nn import attention
from maskwright.nn import attention as padded_attention
from maskwright.nn.attention import Group, attend, plan

from .packs import runs_of

HEADS = 2
LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=9)


def draw(*shape, seed=0):
    """A fixed normal tensor in double precision."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def attended(monkey, lengths, joined, causal=False, qkv=None):
    """Context and gradient of a pack, with runs joined or each on its own."""
    qkv = draw(sum(lengths), 3 * 8) if qkv is None else qkv
    qkv = qkv.clone().requires_grad_()
    with monkey.context() as patch:
        if not joined:
            patch.setattr(attention, "plan", lambda runs, *_: runs)
        context, _ = attend(qkv, runs_of(lengths), HEADS, causal=causal)
    (gradient,) = torch.autograd.grad((context * draw(*context.shape, seed=1)).sum(), qkv)
    return context.detach(), gradient


@pytest.mark.parametrize("causal", [False, True])
@settings(max_examples=30, deadline=None)
@given(lengths=LENGTHS)
def test_joined_runs_give_the_numbers_and_gradients_of_single_ones(causal, lengths):
    monkey = pytest.MonkeyPatch()
    joined, apart = (attended(monkey, lengths, way, causal) for way in (True, False))
    torch.testing.assert_close(joined, apart, rtol=0, atol=1e-12)


@given(lengths=LENGTHS, cost=st.integers(0, 500), most=st.integers(50, 5000))
def test_a_plan_holds_every_token_once_in_order_and_no_group_exceeds_the_cache(lengths, cost, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(padded_attention, "RUN_COST", cost)
        parts = plan.__wrapped__(tuple(runs_of(lengths)), HEADS, most)
    assert sum(part.tokens for part in parts) == sum(lengths)
    found = []
    for part in parts:
        if isinstance(part, Group):
            assert HEADS * part.count * part.length**2 <= most
            torch.testing.assert_close(part.token_of_slot[part.slot_of_token], torch.arange(part.tokens))
            counts = (~part.is_padding.view(part.count, part.length)).sum(dim=1)
            found += counts.tolist()
        else:
            found += [part.length] * part.count
    assert found == lengths


def test_a_poisoned_sequence_of_a_group_moves_no_other():
    lengths = [3, 5, 6]
    monkey = pytest.MonkeyPatch()
    qkv = draw(14, 24)
    clean, _ = attended(monkey, lengths, True, qkv=qkv)
    qkv[:3] = float("nan")
    poisoned, gradient = attended(monkey, lengths, True, qkv=qkv)
    assert poisoned[:3].isnan().all()
    assert torch.equal(poisoned[3:], clean[3:]) and not gradient[3:].isnan().any()


def test_inference_keeps_runs_as_they_are(monkeypatch):
    planned = []
    monkeypatch.setattr(attention, "plan", lambda runs, *_: planned.append(runs) or runs)
    with torch.no_grad():
        attend(draw(14, 24), runs_of([3, 5, 6]), HEADS)
    assert not planned
