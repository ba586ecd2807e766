"""Class labels: parsing of multi-label cells, sort order, class weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...text.formats.cells import LABEL_SEPARATOR


def split_labels(text: str) -> list[str]:
    """Splits a multi-label cell: `a|b` has the labels a and b, an empty cell has none."""
    return [part.strip() for part in text.split(LABEL_SEPARATOR) if part.strip()]


def sort_labels(labels: Sequence[str] | Mapping[str, int]) -> list[str]:
    """Sorts labels: by value if all are numbers, otherwise by name."""
    try:
        values = {label: float(label) for label in labels}
    except ValueError:
        return sorted(labels)
    if not all(math.isfinite(value) for value in values.values()):
        return sorted(labels)
    return sorted(labels, key=lambda label: (values[label], label))


def balanced_weights(counts: Sequence[int], num_rows: int, multi_label: bool = False) -> list[float]:
    """Class weights by inverse frequency: rows / (labels * count), as scikit-learn's "balanced".

    Multi-label: rows without the label / rows with it.
    """
    if multi_label:
        return [(num_rows - count) / count if count < num_rows else 1.0 for count in counts]
    return [num_rows / (len(counts) * count) for count in counts]
