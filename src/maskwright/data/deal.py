"""Deals the micro-batches of a step to processes, so that each computes about equally many tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Deal = Callable[[Sequence[int]], list[int]]
"""From the tokens of every micro-batch of a step to the numbers of those that one process computes, ascending."""


def deal(tokens: Sequence[int], processes: int) -> list[list[int]]:
    """Deals micro-batches, largest first, each to the process with the fewest tokens so far.

    tokens: of each micro-batch. Returns the numbers of each process's micro-batches, ascending. Every process gets one
    with tokens before any gets a second; ties go to the lowest number, so all processes deal alike.
    """
    dealt: list[list[int]] = [[] for _ in range(processes)]
    loads = [0] * processes
    for number in sorted(range(len(tokens)), key=lambda one: (-tokens[one], one)):
        target = min(range(processes), key=lambda process: (loads[process], len(dealt[process]), process))
        dealt[target].append(number)
        loads[target] += tokens[number]
    return [sorted(numbers) for numbers in dealt]


def everything(tokens: Sequence[int]) -> list[int]:
    """The deal of a single process: all micro-batches."""
    return list(range(len(tokens)))
