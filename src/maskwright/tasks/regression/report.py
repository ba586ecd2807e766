"""Report blocks for regression: the largest errors."""

from __future__ import annotations

from ...report import Block, WorstError, WorstErrors
from ..base import Evaluation
from ..report import WORST, TaskReport
from ..rows.sequence import labeled
from .task import Regression


class RegressionReport(TaskReport[Regression]):
    """Blocks of a regression model."""

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the dev examples with the largest errors."""
        targets, predicted = labeled(self.data.dev), evaluation.logits.squeeze(-1)
        distance = (predicted - targets).abs()
        rows = self.data.dev_rows
        errors = [
            WorstError(
                rows[i].text, f"{targets[i]:.2f}", f"{predicted[i]:.2f}", loss=float(distance[i] ** 2),
                text_pair=rows[i].text_pair, line=rows[i].line,
            )
            for i in distance.argsort(descending=True)[:WORST].tolist()
        ]  # fmt: skip
        return [WorstErrors(errors)]
