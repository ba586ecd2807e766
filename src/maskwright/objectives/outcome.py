"""What a loss function hands to the training loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor


@dataclass
class Outcome:
    """Sums over one batch, by part ("mlm", "nsp", ...), so that batches of unequal size add up exactly.

    losses: scalar tensors with gradient, the summed loss of each part; correct: scalar tensors, how many predictions
    were right; counts: how many labels each part has.
    """

    losses: dict[str, Tensor]
    counts: dict[str, int]
    correct: dict[str, Tensor] = field(default_factory=dict)
