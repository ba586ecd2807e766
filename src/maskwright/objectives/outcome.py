"""Result of a loss function, passed to the training loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from .scores import Score


@dataclass
class LossSums:
    """Sums over one batch, by part ("mlm", "nsp", ...), so that batches of unequal size add up exactly.

    losses: scalar tensors with gradient, the summed loss of each part; counts: number of labels of each part; correct:
    scalar tensors, number of correct predictions, for parts without a score; weights: factor of a part's mean loss in
    the total, default 1; scores: correct predictions and their baseline, by part.
    """

    losses: dict[str, Tensor]
    counts: dict[str, int]
    correct: dict[str, Tensor] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    scores: dict[str, Score] = field(default_factory=dict)
