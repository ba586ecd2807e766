"""Schedules and decay groups as published."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core import registry
from maskwright.train.optimizer import adamw
from maskwright.train.schedules import learning_rate, warmup_steps

SCHEDULES = st.sampled_from(["linear", "cosine", "constant"])


@given(steps=st.integers(1, 500), share=st.floats(0, 0.9), schedule=SCHEDULES)
def test_rates_rise_to_the_peak_and_never_pass_it(steps: int, share: float, schedule):
    warmup = warmup_steps(share, steps)
    rates = [learning_rate(step, steps=steps, peak=1.0, warmup=warmup, schedule=schedule) for step in range(steps)]
    assert all(0 < rate <= 1 for rate in rates)
    assert rates[:warmup] == sorted(rates[:warmup])
    assert rates[warmup:] == sorted(rates[warmup:], reverse=True)
    if warmup < steps:
        assert rates[warmup] == 1.0


def test_golden_values_of_the_linear_schedule():
    rates = [learning_rate(step, steps=10, peak=1.0, warmup=2, schedule="linear") for step in range(10)]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125])


def test_warmup_is_a_share_below_one_and_steps_from_one():
    assert warmup_steps(0.1, 1000) == 100
    assert warmup_steps(50, 1000) == 50


def test_biases_and_norms_do_not_decay():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.Embedding(5, 4))
    optimizer = adamw(model, 1e-3, 0.01)
    decayed = {id(parameter) for parameter in optimizer.param_groups[0]["params"]}
    assert optimizer.param_groups[0]["weight_decay"] == 0.01
    assert optimizer.param_groups[1]["weight_decay"] == 0.0
    assert decayed == {id(model[0].weight), id(model[2].weight)}


def half(step: int, steps: int, warmup: int) -> float:
    """Half the peak, always."""
    return 0.5


def test_a_schedule_is_a_function_and_a_line_of_the_registry(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(registry.TABLE["schedule"], "half", "train.test_optimizer:half")
    assert learning_rate(7, steps=9, peak=3.0, warmup=2, schedule="half") == 1.5
    assert learning_rate(0, steps=9, peak=3.0, warmup=2, schedule="half") == 1.5  # the warmup is not its own
