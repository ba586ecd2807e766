"""How uneven the classes of training rows are, in words before training; and how to draw rare ones more often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.plural import plural

RARE_SHARE = 0.1
RARE_PART = 0.5  # of an even share: with 77 classes of one size none is rare
BETA = 0.999
SHOWN = 12
RESAMPLING = ("balanced", "sqrt")


@dataclass(frozen=True)
class Imbalance:
    """Rows of each class. labels: names; counts: rows that have the label; num_rows: of all, labelled or not."""

    labels: Sequence[str]
    counts: Sequence[int]
    num_rows: int

    @property
    def shares(self) -> list[float]:
        """Part of the rows that have each label, 0 to 1."""
        return [count / self.num_rows for count in self.counts]

    @property
    def effective_numbers(self) -> list[float]:
        """(1 - beta^n) / (1 - beta), Cui et al. 2019, equation 2, with beta 0.999: further rows add less and less."""
        return [(1 - BETA**count) / (1 - BETA) for count in self.counts]

    @property
    def rare(self) -> list[str]:
        """Labels below a tenth of the rows, and below half of what each would have if all were of one size."""
        limit = min(RARE_SHARE, RARE_PART / max(len(self.labels), 1))
        return [label for label, share in zip(self.labels, self.shares, strict=True) if share < limit]

    @property
    def constant_accuracy(self) -> float:
        """What the answer that is always the commonest label gets."""
        return max(self.shares, default=0.0)

    def told(self) -> str:
        """A few lines for people; "" where no class is rare."""
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
        commonest = self.labels[order[-1]]
        return "\n".join(
            [
                f"Rare classes in the training rows: {', '.join(self.rare[:SHOWN])}.",
                *lines,
                f"Always '{commonest}' would get an accuracy of {self.constant_accuracy:.3f}: look at macro_f1, and at "
                "pr_auc of the class that matters (--threshold-for CLASS). --class-weight balanced, --focal 2 and "
                "--resample sqrt make rare rows count more.",
            ]
        )


def row_chances(memberships: np.ndarray, kind: str) -> np.ndarray:
    """How probable each row is to be drawn next: float64 [rows], summing to 1.

    memberships: bool [rows, classes], which classes a row is of (several, or none, where labels are several); kind:
    "balanced", every class as often as every other, or "sqrt", in proportion to the square root of its rows. A row of
    several classes is drawn for its rarest one; rows of none are a class of their own.
    """
    lonely = ~memberships.any(axis=1, keepdims=True)
    every = np.concatenate([memberships, lonely], axis=1)  # [rows, classes + 1]
    counts = every.sum(axis=0).astype(np.float64)
    size = np.where(every, counts, np.inf).min(axis=1)  # [rows], rows of the rarest class of each
    chances = 1 / size if kind == "balanced" else 1 / np.sqrt(size)
    whole: np.ndarray = chances / chances.sum()
    return whole


def draw_rows(chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As many row numbers as there are rows, in a drawn order: int64 [rows].

    chances: float64 [rows], summing to 1. A row comes up as often as its chance says, to within one, and so do all
    rows of one chance together (systematic sampling): the shares of the classes hold in every epoch. Which rows get the
    odd one is drawn.
    """
    count = len(chances)
    order = rng.permutation(count)
    order = order[np.argsort(chances[order], kind="stable")]
    marks = (np.arange(count) + rng.random()) / count
    ends = np.cumsum(chances[order])
    places = np.minimum(np.searchsorted(ends / ends[-1], marks, side="right"), count - 1)
    drawn: np.ndarray = order[places][rng.permutation(count)]
    return drawn
