"""Why a model cannot be scored on labeled rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ...text.formats.cells import number_error

MOST_NAMED = 6  # labels listed in a message


class Unscored(NamedTuple):
    """Why a model cannot be scored on rows. reason: verb phrase about their file; task: task that fits the rows, None
    for rows without labels.
    """

    reason: str
    task: str | None

    @classmethod
    def of_labels(cls, labels: Collection[str], reason: str = "contains") -> Unscored:
        """The reason for labels that the model never predicts. reason: verb before the labels."""
        are_numbers = all(number_error(label) is None for label in labels)
        has_fractions = are_numbers and any(not float(label).is_integer() for label in labels)
        task = "regression" if has_fractions else "classification"
        return cls(f"{reason} the labels {named(sorted(labels))}", task)


def named(labels: Sequence[str]) -> str:
    """The first MOST_NAMED labels as a comma-separated list."""
    return ", ".join(label[:40] for label in labels[:MOST_NAMED]) + (", ..." if len(labels) > MOST_NAMED else "")
