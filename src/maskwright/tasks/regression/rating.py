"""The main metric by row, to compare two models."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from ..evaluation import metrics as scores
from ..evaluation.rating import ScoredPredictions
from ..rows.examples import Examples
from ..rows.sequence import labeled
from .task import Regression


def rate(task: Regression, logits: Tensor, examples: Examples) -> ScoredPredictions:
    """Returns the contribution of each row to the main metric. logits: as from `Task.logits`."""
    parts = np.stack([labeled(examples).numpy(), logits.squeeze(-1).numpy()], axis=1).astype(np.float64)
    return ScoredPredictions("pearson", parts, lambda both: scores.pearson(both[:, 0], both[:, 1]))
