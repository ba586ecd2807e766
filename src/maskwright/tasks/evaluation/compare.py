"""Compares the main metric of two models on the same rows, with significance tests.

Each task decomposes its main metric into contributions per row (`parts`), so that the metric of any resample of rows is
computed without running the models again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ...core.errors import InputError
from ...core.registry import load
from ..base import Task
from ..rows.examples import Examples
from .rating import ScoredPredictions, mean
from .significance import Difference, McNemar, bootstrap_metric, bootstrap_scores, mcnemar, permutation_test

SAMPLES = 2000  # for metrics that are not a mean over rows


@dataclass(frozen=True)
class Compared:
    """The main metric of both models, the difference with its interval, and the p-values of the tests."""

    metric: str
    first: float
    second: float
    difference: Difference
    permutation_p: float
    mcnemar: McNemar | None

    def to_json(self) -> dict[str, Any]:
        """All fields, with the conclusion as a sentence."""
        return asdict(self) | {"is_significant": self.is_significant, "sentence": self.sentence("A", "B")}

    @property
    def is_significant(self) -> bool:
        """Whether both the bootstrap and the permutation test are significant."""
        return self.difference.is_significant and self.permutation_p < 1 - self.difference.confidence

    def sentence(self, first: str, second: str) -> str:
        """The conclusion in words."""
        found, name = self.difference, self.metric.replace("_", " ")
        if found.difference == 0:
            return f"{first} and {second} have the same {name} on these {found.num_rows:,} rows."
        better, worse = (first, second) if found.difference > 0 else (second, first)
        low, high = sorted((abs(found.low), abs(found.high)))
        if self.is_significant:
            return (
                f"{better} is better: its {name} is {abs(found.difference):.4f} higher; {found.confidence:.0%} "
                f"bootstrap interval {low:.4f} to {high:.4f}."
            )
        p_value = max(found.p_value, self.permutation_p)
        return (
            f"The difference is not significant on these {found.num_rows:,} rows: {better} is "
            f"{abs(found.difference):.4f} ahead of {worse} in {name} (p = {p_value:.3f})."
        )


def rate(task: Task, logits: Tensor, examples: Examples) -> ScoredPredictions:
    """Decomposes the main metric of a task by row. Raises InputError for a task without such a metric."""
    if not task.rating:
        raise InputError(f"Models for {task.name} cannot be compared row by row.")
    found: ScoredPredictions = load(task.rating)(task, logits, examples)
    return found


def on_equal_terms(first: Task, second: Task) -> tuple[Task, Task]:
    """Returns both tasks with the same main metric; see `Task.on_equal_terms`, which raises InputError."""
    return first.on_equal_terms(second) if type(first) is type(second) else (first, second)


def compare(first: ScoredPredictions, second: ScoredPredictions, *, seed: int = 0) -> Compared:
    """Runs a paired bootstrap, a permutation test, and McNemar's test if predictions are right or wrong.

    Raises InputError for different rows or metrics.
    """
    if first.metric != second.metric:
        raise InputError(f"One model is scored by {first.metric} and the other by {second.metric}: their tasks differ.")
    if first.of is mean:
        found = bootstrap_scores(first.parts[:, 0], second.parts[:, 0], seed=seed)
    else:
        found = bootstrap_metric(_of(first), first.parts[:, 0], first.parts, second.parts, samples=SAMPLES, seed=seed)
    p_value = permutation_test(_of(first), first.parts[:, 0], first.parts, second.parts, samples=SAMPLES, seed=seed)
    tosses = None
    if first.is_right is not None and second.is_right is not None:
        tosses = mcnemar(np.ones(len(first.is_right), dtype=bool), first.is_right, second.is_right)
    return Compared(first.metric, first.of(first.parts), second.of(second.parts), found, p_value, tosses)


def _of(rated: ScoredPredictions) -> Callable[[np.ndarray, np.ndarray], float]:
    """The metric as a function of (gold, parts); the parts already contain the gold labels."""
    return lambda gold, parts: rated.of(parts)
