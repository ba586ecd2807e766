"""`maskwright bench`: speed and cost, measured or estimated."""

from __future__ import annotations

from ..groups import DefaultGroup, make_group
from .complexity import complexity
from .plan import plan
from .speed import speed

app = make_group(
    "Measure speed, and estimate the cost of training. `bench MODEL` is `bench speed`.",
    {"speed": speed, "complexity": complexity, "plan": plan},
    DefaultGroup,
)
