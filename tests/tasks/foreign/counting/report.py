"""Report blocks of the task."""

from __future__ import annotations

from collections import Counter

from maskwright.report import Block
from maskwright.tasks.report import TaskReport, counts_chart

from .task import Counting


class CountingReport(TaskReport[Counting]):
    """A chart of the counts."""

    def labels(self) -> list[Block]:
        return [counts_chart(Counter(row.label for row in self.data.train_rows), "Counts in the training rows")]
