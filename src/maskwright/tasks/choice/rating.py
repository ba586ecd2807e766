"""The main metric by row, to compare two models."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from ..evaluation.rating import ScoredPredictions, mean
from ..rows.examples import Examples
from ..rows.sequence import labeled
from .task import Choice


def rate(task: Choice, logits: Tensor, examples: Examples) -> ScoredPredictions:
    """Returns the contribution of each row to the main metric. logits: as from `Task.logits`."""
    right = logits.argmax(dim=-1).numpy() == labeled(examples).numpy()
    return ScoredPredictions("accuracy", right[:, None].astype(np.float64), mean, right)
