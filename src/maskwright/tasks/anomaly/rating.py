"""The main metric by row, to compare two models."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from ..evaluation.rating import ScoredPredictions, mean, pr_auc
from ..rows.examples import Examples
from .task import Anomaly


def rate(task: Anomaly, logits: Tensor, examples: Examples) -> ScoredPredictions:
    """PR AUC if there are anomalies, otherwise explained variance."""
    errors, is_rare, found = task.decide(logits, examples)
    if not is_rare.any():
        return ScoredPredictions("explained_variance", 1 - errors[:, None], mean)
    parts = np.stack([is_rare, errors], axis=1).astype(np.float64)
    return ScoredPredictions("pr_auc", parts, pr_auc, found == is_rare)
