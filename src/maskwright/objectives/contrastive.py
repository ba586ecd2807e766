"""Losses for sentence embeddings: similar meanings should be close, different ones far apart.

cosine_loss     scored pairs: the cosine similarity should equal the score (Reimers and Gurevych 2019, section 3)
in_batch_loss   positive pairs with in-batch negatives (multiple negatives ranking loss; van den Oord et al. 2018,
                equation 4; Henderson et al. 2017, section 4.4); with two dropout masks of one text as the pair it is
                SimCSE (Gao et al. 2021, equation 4)
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

TEMPERATURE = 0.05


def cosine_loss(cosines: Tensor, gold: Tensor) -> Tensor:
    """Mean squared error between cosine similarities and scores in [0, 1], a scalar. Both float [pairs]."""
    return F.mse_loss(cosines, gold)


def in_batch_logits(
    first: Tensor, second: Tensor, twins: Tensor | None = None, temperature: float = TEMPERATURE
) -> Tensor:
    """Logits of each first text against all second ones: float [pairs, pairs]. first, second: float [pairs, size],
    normalized.

    twins: int64 [pairs], equal for identical second texts; duplicates of the positive are excluded from the negatives.
    """
    logits = first @ second.T / temperature
    if twins is None:
        return logits
    same = twins[:, None] == twins[None, :]
    return logits.masked_fill(same.fill_diagonal_(False), float("-inf"))


def in_batch_loss(logits: Tensor, is_positive: Tensor) -> Tensor:
    """Summed cross-entropy of finding the positive, over the positive pairs: a scalar.

    logits: float [pairs, pairs] of `in_batch_logits`; is_positive: bool [pairs]. The second text of a negative pair is
    an additional negative for the others.
    """
    rows = is_positive.nonzero().flatten()  # [positives]
    return F.cross_entropy(logits[rows], rows, reduction="sum")
