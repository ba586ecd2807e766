"""The loss of one masked token, two ways: as training computes it, and as a binary loss over the vocabulary.

Training takes the categorical cross-entropy, -log p of the right word (Devlin et al. 2019, section 3.1). Lectures also
print a binary one, -1/N sum of t log p + (1 - t) log(1 - p) over all N words, which is another number: it also charges
for what was given to each wrong word, and divides by N.
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
    """binary, categorical: the two losses, in nats; terms: what each word adds to the binary one, before the mean."""

    binary: float
    categorical: float
    terms: tuple[float, ...]


def explain_loss(probabilities: Sequence[float], target: Sequence[int]) -> ExplainedLoss:
    """Both losses of one guess.

    probabilities: of each word, between 0 and 1, summing to 1; target: 1 for the right word, 0 for the others. Raises
    InputError for others.
    """
    given = torch.tensor(probabilities, dtype=torch.float64)
    wanted = torch.tensor(target, dtype=torch.float64)
    if (
        given.shape != wanted.shape
        or bool((given <= 0).any() or (given >= 1).any())
        or abs(float(given.sum()) - 1) > 1e-6
    ):
        raise InputError("The probabilities must lie between 0 and 1, sum to 1, and be as many as the targets.")
    if sorted(target) != [0] * (len(target) - 1) + [1]:
        raise InputError("The targets must be 1 for one word and 0 for all others.")
    terms = F.binary_cross_entropy(given, wanted, reduction="none")
    right = torch.tensor([list(target).index(1)])
    return ExplainedLoss(
        float(terms.mean()), float(cross_entropy(given.log()[None], right, "target")), tuple(terms.tolist())
    )
