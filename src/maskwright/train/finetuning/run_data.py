"""The data of a fine-tuning run: labeled rows, and what its report reads of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.errors import RowError
from ...hub.folders import LoadReport
from ...tasks.data import TaskData
from .config import FinetuneConfig


@dataclass(frozen=True)
class LabeledData:
    """The rows of a run. from_train: whether dev was held out from train; skipped: number of skipped bad rows."""

    train: list[Any]
    dev: list[Any]
    from_train: bool
    skipped: int

    def without(self, faults: Sequence[RowError]) -> LabeledData:
        """A copy without the rows that have these errors."""
        bad = {(fault.file, fault.line) for fault in faults}
        train, dev = (
            [row for row in rows if not bad.intersection((row.file, line) for line in _lines(row))]
            for rows in (self.train, self.dev)
        )
        removed = len(self.train) + len(self.dev) - len(train) - len(dev)
        return LabeledData(train, dev, self.from_train, self.skipped + removed)


def _lines(row: Any) -> Sequence[int]:
    """The lines of a row: one, or those of a sentence's words."""
    return getattr(row, "lines", ()) or (row.line,)


@dataclass(frozen=True, kw_only=True)
class RunData(TaskData):
    """Task, rows and settings of a run, for its report.

    is_split: whether dev was held out from train; num_skipped: number of skipped bad rows; loaded: the loaded and new
    weights of the model.
    """

    config: FinetuneConfig
    is_split: bool
    num_skipped: int
    loaded: LoadReport
