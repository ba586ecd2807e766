"""The main metric by row, to compare two models."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from ..evaluation.rating import ScoredPredictions, f1, mean, pr_auc
from ..rows.examples import Examples
from ..rows.sequence import labeled
from .answers import THRESHOLD
from .task import Classification


def rate(task: Classification, logits: Tensor, examples: Examples) -> ScoredPredictions:
    """Returns the contribution of each row to the main metric. logits: as from `Task.logits`."""
    gold, predicted = labeled(examples).numpy(), task.decide(logits, task.out_of_fold_thresholds(logits, examples))
    right = (predicted == (gold >= THRESHOLD)).all(axis=1) if task.multi_label else predicted == gold
    if task.rare is not None:
        shares, is_rare, _ = task.rare_rows(logits, examples)
        parts = np.stack([is_rare, shares], axis=1).astype(np.float64)
        return ScoredPredictions("pr_auc", parts, pr_auc, right)
    if task.multi_label:
        truth = gold >= THRESHOLD
        counts = np.stack([truth.sum(1), predicted.sum(1), (truth & predicted).sum(1)], axis=1).astype(np.float64)
        return ScoredPredictions("f1", counts, f1, right)
    return ScoredPredictions("accuracy", right[:, None].astype(np.float64), mean, right)
