"""Losses for vectors of sentences: near where the meaning is near, far where it is not.

cosine_loss     scored pairs: the cosine shall be the score (Reimers and Gurevych 2019, section 3, regression)
in_batch_loss   pairs that belong together: each text shall find its partner among those of the whole batch
                (van den Oord et al. 2018, equation 4; Henderson et al. 2017, section 4.4); with two dropout draws
                of one text as the pair it is SimCSE (Gao et al. 2021, equation 4)
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

TEMPERATURE = 0.05


def cosine_loss(cosines: Tensor, gold: Tensor) -> Tensor:
    """Mean squared distance between cosines and scores of 0 to 1, a scalar. cosines, gold: float [pairs]."""
    return F.mse_loss(cosines, gold)


def in_batch_logits(
    first: Tensor, second: Tensor, twins: Tensor | None = None, temperature: float = TEMPERATURE
) -> Tensor:
    """Each first text against all second ones: float [pairs, pairs]. first, second: float [pairs, size], length 1.

    twins: int64 [pairs], equal where the second texts are the same; a twin of the partner is no wrong answer, and is
    left out.
    """
    logits = first @ second.T / temperature
    if twins is None:
        return logits
    same = twins[:, None] == twins[None, :]
    return logits.masked_fill(same.fill_diagonal_(False), float("-inf"))


def in_batch_loss(logits: Tensor, is_positive: Tensor) -> Tensor:
    """Summed cross-entropy of finding the partner, over the pairs that belong together: a scalar.

    logits: float [pairs, pairs] of `in_batch_logits`; is_positive: bool [pairs]. The second text of a pair that does
    not belong together is one more wrong answer for the others.
    """
    rows = is_positive.nonzero().flatten()  # [positives]
    return F.cross_entropy(logits[rows], rows, reduction="sum")
