"""Batches prepared ahead equal those made on demand, and their leftovers are distinguished."""

from __future__ import annotations

import threading

import pytest

from maskwright.train.steps import Prefetcher


@pytest.mark.parametrize("ahead", [False, True])
def test_every_step_gets_its_own(ahead: bool):
    steps = Prefetcher(lambda step: step * 10, ahead)
    assert [steps.take(step) for step in (0, 1, 2, 5, 6, 3)] == [0, 10, 20, 50, 60, 30]


def test_the_next_one_is_made_while_this_one_is_used():
    made = threading.Event()

    def make(step: int) -> int:
        if step == 1:
            made.set()
        return step

    Prefetcher(make, ahead=True).take(0)
    assert made.wait(10)


def test_an_error_is_raised_when_its_step_is_requested():
    def make(step: int) -> int:
        if step == 1:
            raise ValueError("step 1")
        return step

    steps = Prefetcher(make, ahead=True)
    assert steps.take(0) == 0
    with pytest.raises(ValueError, match="step 1"):
        steps.take(1)
    steps.forget()
    assert steps.take(2) == 2


def test_what_is_forgotten_is_made_again():
    drawn: list[int] = []
    steps = Prefetcher(lambda step: drawn.append(step) or len(drawn), ahead=True)
    steps.take(0)
    steps.forget()
    assert steps.take(1) == 3 and drawn[:3] == [0, 1, 1]
