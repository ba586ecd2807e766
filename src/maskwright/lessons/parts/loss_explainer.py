"""The loss of one masked token: the categorical loss of training, and a binary loss over the vocabulary.

Training uses the categorical cross-entropy, -log p of the correct word (Devlin et al. 2019, section 3.1). Lectures also
show a binary one, -1/N sum of t log p + (1 - t) log(1 - p) over all N words. It differs: it also penalizes the
probability of each wrong word, and divides by N.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from ...core.errors import InputError
from ...models.losses import cross_entropy


@dataclass(frozen=True)
class ExplainedLoss:
    """Two losses of one prediction, in nats. terms: each word's contribution to the binary loss, before the mean."""

    binary: float
    categorical: float
    terms: tuple[float, ...]


def explain_loss(probabilities: Sequence[float], target: Sequence[int]) -> ExplainedLoss:
    """Compute both losses of one prediction.

    probabilities: of each word, between 0 and 1, summing to 1; target: 1 for the correct word, 0 for the others. Raises
    InputError for other values.
    """
    given = torch.tensor(probabilities, dtype=torch.float64)
    wanted = torch.tensor(target, dtype=torch.float64)
    if (
        given.shape != wanted.shape
        or bool((given <= 0).any() or (given >= 1).any())
        or abs(float(given.sum()) - 1) > 1e-6
    ):
        raise InputError("The probabilities must be between 0 and 1, sum to 1, and have the length of the targets.")
    if sorted(target) != [0] * (len(target) - 1) + [1]:
        raise InputError("The targets must be 1 for one word and 0 for all others.")
    terms = F.binary_cross_entropy(given, wanted, reduction="none")
    right = torch.tensor([list(target).index(1)])
    return ExplainedLoss(
        float(terms.mean()), float(cross_entropy(given.log()[None], right, "target")), tuple(terms.tolist())
    )
