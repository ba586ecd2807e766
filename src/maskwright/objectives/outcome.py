"""What a loss function hands to the training loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor


@dataclass
class Outcome:
    """Sums over one batch, by part ("mlm", "nsp", ...), so that batches of unequal size add up exactly.

    losses: scalar tensors with gradient, the summed loss of each part; correct: scalar tensors, how many predictions
    were right; counts: how many labels each part has; weights: what a part's mean loss is multiplied by in the total,
    1 where it is not named; baseline: scalar tensors, how many the best constant answer gets right, for parts where
    that depends on the batch.
    """

    losses: dict[str, Tensor]
    counts: dict[str, int]
    correct: dict[str, Tensor] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    baseline: dict[str, Tensor] = field(default_factory=dict)
