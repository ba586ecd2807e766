"""The main metric by row, to compare two models."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from ...core.errors import InputError
from ..evaluation import metrics as scores
from ..evaluation.rating import ScoredPredictions
from ..rows.examples import Examples
from ..rows.sequence import labeled
from .rows import PairExamples
from .task import DIGITS, Similarity


def rate(task: Similarity, logits: Tensor, examples: Examples) -> ScoredPredictions:
    """Returns the contribution of each row to the main metric. logits: as from `Task.logits`."""
    if not isinstance(examples, PairExamples) or not examples.is_scored:
        raise InputError("Sentence embeddings are compared on pairs with scores; these rows have none.")
    parts = np.stack([labeled(examples).numpy(), task.cosines(logits).numpy().round(DIGITS)], axis=1)
    return ScoredPredictions("spearman", parts.astype(np.float64), lambda both: scores.spearman(both[:, 0], both[:, 1]))
