"""Class imbalance of training rows, and resampling of minority classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.util import plural

RARE_SHARE = 0.1
RARE_PART = 0.5  # of an even share: with 77 classes of one size none is rare
BETA = 0.999
SHOWN = 12
RESAMPLING = ("balanced", "sqrt")


@dataclass(frozen=True)
class Imbalance:
    """Number of rows per class. counts: rows with each label; num_rows: all rows, labeled or not."""

    labels: Sequence[str]
    counts: Sequence[int]
    num_rows: int

    @property
    def shares(self) -> list[float]:
        """Fraction of the rows with each label."""
        return [count / self.num_rows for count in self.counts]

    @property
    def effective_numbers(self) -> list[float]:
        """Effective number of samples, (1 - beta^n) / (1 - beta) with beta 0.999 (Cui et al. 2019, equation 2)."""
        return [(1 - BETA**count) / (1 - BETA) for count in self.counts]

    @property
    def rare(self) -> list[str]:
        """Labels with less than a tenth of the rows and less than half of an even share."""
        limit = min(RARE_SHARE, RARE_PART / max(len(self.labels), 1))
        return [label for label, share in zip(self.labels, self.shares, strict=True) if share < limit]

    @property
    def constant_accuracy(self) -> float:
        """Accuracy of the majority-class baseline."""
        return max(self.shares, default=0.0)

    def summary(self) -> str:
        """A text of a few lines; "" if no class is rare."""
        if not self.rare:
            return ""
        order = sorted(range(len(self.labels)), key=lambda place: self.counts[place])
        numbers = self.effective_numbers
        lines = [
            f"  {self.labels[place]}: {plural(self.counts[place], 'row')}, {100 * self.shares[place]:.1f} %, "
            f"effective number {numbers[place]:,.0f}"
            for place in order[:SHOWN]
        ]
        if len(order) > SHOWN:
            lines.append(f"  and {len(order) - SHOWN} more")
        majority = self.labels[order[-1]]
        return "\n".join(
            [
                f"Rare classes in the training rows: {', '.join(self.rare[:SHOWN])}.",
                *lines,
                f"Always predicting '{majority}' has an accuracy of {self.constant_accuracy:.3f}: use macro_f1, and "
                "pr_auc of the class of interest (--threshold-for CLASS). --class-weight balanced, --focal 2 and "
                "--resample sqrt give rare rows more weight.",
            ]
        )


def row_probabilities(memberships: np.ndarray, kind: str) -> np.ndarray:
    """Sampling probability of each row: float64 [rows], summing to 1.

    memberships: bool [rows, classes], the classes of each row (any number with multiple labels); kind: "balanced"
    samples all classes equally often, "sqrt" in proportion to the square root of their size. A row with several classes
    counts for its rarest one; rows without a class form a separate class.
    """
    has_none = ~memberships.any(axis=1, keepdims=True)
    every = np.concatenate([memberships, has_none], axis=1)  # [rows, classes + 1]
    counts = every.sum(axis=0).astype(np.float64)
    size = np.where(every, counts, np.inf).min(axis=1)  # [rows], size of the rarest class of each row
    chances = 1 / size if kind == "balanced" else 1 / np.sqrt(size)
    whole: np.ndarray = chances / chances.sum()
    return whole


def resample_rows(chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws as many row numbers as there are rows, shuffled: int64 [rows].

    chances: float64 [rows], summing to 1. Systematic sampling: each row, and each group of rows with the same
    probability, is drawn as often as expected, to within one, so the class proportions hold in every epoch.
    """
    count = len(chances)
    order = rng.permutation(count)
    order = order[np.argsort(chances[order], kind="stable")]
    marks = (np.arange(count) + rng.random()) / count
    ends = np.cumsum(chances[order])
    places = np.minimum(np.searchsorted(ends / ends[-1], marks, side="right"), count - 1)
    drawn: np.ndarray = order[places][rng.permutation(count)]
    return drawn
