"""The main metric by row, to compare two models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from ...text.readers.tagged import MISSING
from ..evaluation.rating import ScoredPredictions, f1, share
from ..rows.examples import Examples
from .examples import TaggedExamples
from .schemes import agreement, spans
from .task import Tagging


def rate(task: Tagging, logits: Tensor, examples: Examples) -> ScoredPredictions:
    """Returns the contribution of each row to the main metric. logits: as from `Task.logits`."""
    assert isinstance(examples, TaggedExamples)
    gold, found = task.gold_of(examples), task.tags_of(logits, examples)
    pairs = [[pair for pair in zip(*row, strict=True) if pair[0] != MISSING] for row in zip(gold, found, strict=True)]
    right = np.array([all(one == other for one, other in row) for row in pairs])
    if task.scheme is None:
        counts = [[sum(one == other for one, other in row), len(row)] for row in pairs]
        return ScoredPredictions("accuracy", np.array(counts, dtype=np.float64), share, right)
    return ScoredPredictions("entity_f1", np.array(_entity_counts(gold, found), dtype=np.float64), f1, right)


def _entity_counts(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> list[list[int]]:
    """Number of gold, predicted and correct entities of each sentence."""
    rows = [agreement([truth], [guess], spans)[""] for truth, guess in zip(gold, found, strict=True)]
    return [[row.gold, row.found, row.both] for row in rows]
