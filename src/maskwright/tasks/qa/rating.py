"""The main metric by row, to compare two models."""

from __future__ import annotations

from torch import Tensor

from ..evaluation.rating import ScoredPredictions, mean
from ..rows.examples import Examples
from .task import QuestionAnswering
from .threshold import out_of_fold_outcome


def rate(task: QuestionAnswering, logits: Tensor, examples: Examples) -> ScoredPredictions:
    """Returns the contribution of each row to the main metric. logits: as from `Task.logits`."""
    outcome = out_of_fold_outcome(task.scored(logits, examples), task.threshold, task.may_refuse)  # [rows, 2]
    return ScoredPredictions("f1", outcome[:, 1:], mean, outcome[:, 0] == 1.0)
