"""Formatting of scores over seeds and of run times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

from maskwright.train.run import RunFolder


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean and deviation over the seeds."""
    return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def minutes_of(run: Path) -> float:
    """How long the steps of a run folder took."""
    return sum(record.get("seconds", 0.0) for record in RunFolder(run, {}).records()) / 60
