"""Learning-rate schedules (Devlin et al. 2019, appendix A.2; Vaswani et al. 2017, equation 3).

A schedule is a function `(step, steps, warmup)` that returns the fraction of the peak learning rate at `step`, counted
from 0, after the warmup. Its name is a line of `core.registry`.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Literal

from ..core import registry

if TYPE_CHECKING:
    Schedule = str
else:
    Schedule = Literal[tuple(registry.names("schedule"))]


_resolve = cache(registry.resolve)


def warmup_steps(warmup: float, steps: int) -> int:
    """Warmup in steps: `warmup` below 1 is a fraction of all steps, otherwise a number of steps."""
    return round(warmup * steps) if warmup < 1 else int(warmup)


def learning_rate(step: int, *, steps: int, peak: float, warmup: int, schedule: Schedule) -> float:
    """The learning rate of step `step` (from 0): linear warmup to `peak`, then as the schedule has it."""
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * float(_resolve("schedule", schedule)(step, steps, warmup))


def linear(step: int, steps: int, warmup: int) -> float:
    """Linear decay to 0 at `steps`."""
    return 1 - _progress(step, steps, warmup)


def cosine(step: int, steps: int, warmup: int) -> float:
    """Half a cosine, to 0 at `steps`."""
    return 0.5 * (1 + math.cos(math.pi * _progress(step, steps, warmup)))


def constant(step: int, steps: int, warmup: int) -> float:
    """No decay."""
    return 1.0


def inverse_sqrt(step: int, steps: int, warmup: int) -> float:
    """Decay with the square root of the step, which never reaches 0.

    With peak = (hidden * warmup) ** -0.5 it is the schedule of Vaswani et al. 2017, equation 3.
    """
    return math.sqrt(max(warmup, 1) / (step + 1))


def _progress(step: int, steps: int, warmup: int) -> float:
    """The fraction of the steps after the warmup that are done."""
    return (step - warmup) / max(steps - warmup, 1)
