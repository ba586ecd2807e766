"""Names of classes: of one cell, in order, and how much each should count."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..text.cells import LABEL_SEPARATOR


def split_labels(text: str) -> list[str]:
    """The labels of a multi-label cell: `a|b` is a and b, an empty one is none."""
    return [part.strip() for part in text.split(LABEL_SEPARATOR) if part.strip()]


def sort_labels(labels: Sequence[str] | Mapping[str, int]) -> list[str]:
    """Label names in order: by value when all are numbers, else by name."""
    try:
        values = {label: float(label) for label in labels}
    except ValueError:
        return sorted(labels)
    if not all(math.isfinite(value) for value in values.values()):
        return sorted(labels)
    return sorted(labels, key=lambda label: (values[label], label))


def balanced_weights(counts: Sequence[int], num_rows: int, multi_label: bool = False) -> list[float]:
    """Weights that let every class count the same: rows / (labels * count), as scikit-learn's "balanced".

    With several labels each is its own decision: rows without the label / rows with it.
    """
    if multi_label:
        return [(num_rows - count) / count if count < num_rows else 1.0 for count in counts]
    return [num_rows / (len(counts) * count) for count in counts]
