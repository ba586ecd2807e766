"""Powers of growth: how cost follows size and work, and where it grows faster than the work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from maskwright.speed.complexity import power

MARGIN = 1.25  # cost for a unit of work may rise by so much above its least before it is named: noise, caches
MEMORY_MARGIN = 0.2  # of a power
NOTABLE = 32e6  # bytes: less is the allocator's


@dataclass(frozen=True)
class Growth:
    """Of one curve. time, work: powers of the size, over the larger half of the sizes (fixed costs hide the smaller);
    drift: seconds for a unit of work at the largest size, as a multiple of the least of all; worst: the size after
    which that rose most, None where it did not; memory: power of the size, None where it is too little to tell.
    """

    time: float
    work: float
    drift: float
    worst: int | None
    memory: float | None
    is_faster: bool
    takes_more: bool


def growth(points: Sequence[dict[str, float]], allowed_memory: float) -> Growth:
    """Of measured points (size, seconds, work, memory), smallest first, two or more.

    allowed_memory: the power of the size with which memory may grow.
    """
    sizes = [point["size"] for point in points]
    half = points[min(len(points) // 2, len(points) - 2) :]
    large = [point["size"] for point in half]
    each = np.array([point["seconds"] / point["work"] for point in points])
    drift = float(each[-1] / each.min())
    rises = each[1:] / each[:-1]
    worst = int(sizes[int(rises.argmax())]) if rises.max() > 1 else None
    memory = _memory_power(points)
    return Growth(
        time=power(large, [point["seconds"] for point in half]),
        work=power(large, [point["work"] for point in half]),
        drift=drift,
        worst=worst,
        memory=memory,
        is_faster=drift > MARGIN,
        takes_more=memory is not None and memory > allowed_memory + MEMORY_MARGIN,
    )


def _memory_power(points: Sequence[dict[str, float]]) -> float | None:
    """Over the sizes whose memory is notable; None for fewer than two of them."""
    notable = [point for point in points if point["memory"] >= NOTABLE]
    if len(notable) < 2:
        return None
    return power([point["size"] for point in notable], [point["memory"] for point in notable])
