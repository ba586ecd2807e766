"""Learning-rate schedules (Devlin et al. 2019, appendix A.2; Vaswani et al. 2017, equation 3)."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["linear", "cosine", "constant", "inverse_sqrt"]


def warmup_steps(warmup: float, steps: int) -> int:
    """Warmup in steps: `warmup` below 1 is a fraction of all steps, otherwise a number of steps."""
    return round(warmup * steps) if warmup < 1 else int(warmup)


def learning_rate(step: int, *, steps: int, peak: float, warmup: int, schedule: Schedule) -> float:
    """The learning rate of step `step` (from 0): linear warmup to `peak`, then decay to 0 at `steps`, or constant.

    "inverse_sqrt" decays with the square root of the step and never reaches 0: with peak = (hidden * warmup) ** -0.5 it
    is the schedule of Vaswani et al. 2017, equation 3.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    if schedule == "constant":
        return peak
    if schedule == "inverse_sqrt":
        return peak * math.sqrt(max(warmup, 1) / (step + 1))
    progress = (step - warmup) / max(steps - warmup, 1)
    if schedule == "cosine":
        return peak * 0.5 * (1 + math.cos(math.pi * progress))
    return peak * (1 - progress)
