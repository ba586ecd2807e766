"""Deals the micro-batches of a step to processes, so that each computes about equally many tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Deal = Callable[[Sequence[int]], list[int]]
"""From the tokens of every micro-batch of a step to the numbers of those that one process computes, ascending.

A negative number counts from the last micro-batch and repeats it without effect: see `deal_equally_many`.
"""


def deal(tokens: Sequence[int], processes: int, most: int | None = None) -> list[list[int]]:
    """Deals micro-batches, largest first, each to the process with the fewest tokens so far.

    tokens: of each micro-batch. Returns the numbers of each process's micro-batches, ascending. Every process gets one
    with tokens before any gets a second; ties go to the lowest number, so all processes deal alike. most: of one
    process; None for any number.
    """
    dealt: list[list[int]] = [[] for _ in range(processes)]
    loads = [0] * processes
    for number in sorted(range(len(tokens)), key=lambda one: (-tokens[one], one)):
        able = [process for process in range(processes) if most is None or len(dealt[process]) < most]
        target = min(able, key=lambda process: (loads[process], len(dealt[process]), process))
        dealt[target].append(number)
        loads[target] += tokens[number]
    return [sorted(numbers) for numbers in dealt]


def deal_equally_many(tokens: Sequence[int], processes: int) -> list[list[int]]:
    """Deals as many micro-batches to every process, as sharded training requires, where each has the same collectives.

    Processes that would have fewer repeat the smallest one, under its negative number, without effect.
    """
    most = -(-len(tokens) // processes)
    smallest = min(range(len(tokens)), key=lambda number: (tokens[number], number), default=0) - len(tokens)
    return [own + [smallest] * (most - len(own)) for own in deal(tokens, processes, most)]


def everything(tokens: Sequence[int]) -> list[int]:
    """The deal of a single process: all micro-batches."""
    return list(range(len(tokens)))
