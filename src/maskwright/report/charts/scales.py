"""Axes: positions from 0 to 1, and ticks at round values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from .. import numbers

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high` (low < high; both positive when `is_log`)."""

    low: float
    high: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """Position of `value`: 0 at `low`, 1 at `high`."""
        if self.is_log:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)

    def ticks(self, wanted: int = 5) -> list[float]:
        """Round values inside the axis, about `wanted` of them, ascending."""
        return _log_ticks(self.low, self.high, wanted) if self.is_log else _ticks(self.low, self.high, wanted)


def data_scale(values: Sequence[float], *, from_zero: bool = False, is_log: bool = False) -> Scale:
    """An axis over all `values` with a margin; a constant is centered, no values give 0 to 1.

    from_zero: start at 0 if that takes at most a third of the height.
    """
    if not values:
        return Scale(1.0, 10.0, True) if is_log else Scale(0.0, 1.0)
    low, high = min(values), max(values)
    if is_log:
        return Scale(low / 2, high * 2, True) if high <= low * 1.001 else Scale(low / 1.08, high * 1.08, True)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        room = abs(high) / 2 or 1.0
        return Scale(low - room, high + room)
    air = 0.04 * (high - low)
    if from_zero and 0 <= low <= high / 3:
        return Scale(0.0, high + air)
    return Scale(low - air, high + air)


def exact_scale(values: Sequence[float]) -> Scale:
    """An axis from the smallest to the largest value; a single value is centered.

    It starts at 0 if the smallest value is less than a twentieth of the largest.
    """
    if not values or max(values) == min(values):
        return data_scale(values)
    low, high = min(values), max(values)
    return Scale(0.0 if 0 < low < high / 20 else low, high)


def labels(ticks: Sequence[float], unit: str = "number", is_log: bool = False) -> list[str]:
    """Tick labels with as many digits as needed."""
    if is_log:
        return [numbers.short(tick) if tick >= 1000 else numbers.setting(float(tick)) for tick in ticks]
    if unit == "percent":
        step = min((b - a for a, b in pairwise(ticks)), default=0.1)
        return [numbers.percent(tick, _digits(step * 100)) for tick in ticks]
    if not ticks or max(abs(tick) for tick in ticks) >= 10_000:
        return [numbers.short(tick) for tick in ticks]
    step = min((b - a for a, b in pairwise(ticks)), default=ticks[0] or 1.0)
    if max(abs(tick) for tick in ticks) < 1e-3:
        return [numbers.show(float(tick)) if tick else "0" for tick in ticks]
    digits = _digits(step)
    return [f"{tick:,.{digits}f}".replace("-", numbers.MINUS) for tick in ticks]


def _ticks(low: float, high: float, wanted: int) -> list[float]:
    rough = (high - low) / max(wanted, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step * power for step in STEPS if step * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12 - math.floor(math.log10(step))) + 0.0 for number in range(first, last + 1)]


def _log_ticks(low: float, high: float, wanted: int) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors in ((1,), (1, 3), (1, 2, 5)):
        ticks = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= 3:
            return inside[:: math.ceil(len(inside) / (wanted + 1))]
    return _ticks(low, high, wanted)


def _digits(step: float) -> int:
    for digits in range(8):
        if abs(round(step, digits) - step) <= 1e-6 * abs(step):
            return digits
    return 8
