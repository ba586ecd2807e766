"""Losses beside cross-entropy: contrastive losses for sentence embeddings, focal loss for rare classes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

# -- Losses for sentence embeddings: similar meanings should be close, different ones far apart ----------------------
#
# cosine_loss     scored pairs: the cosine similarity should equal the score (Reimers and Gurevych 2019, section 3)
# in_batch_loss   positive pairs with in-batch negatives (multiple negatives ranking loss; van den Oord et al. 2018,
#                 equation 4; Henderson et al. 2017, section 4.4); with two dropout masks of one text as the pair it is
#                 SimCSE (Gao et al. 2021, equation 4)
# flops           regularizer of sparse embeddings (Paria et al. 2020, equation 4; Formal et al. 2021, equation 5)


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


def flops(vectors: Tensor) -> Tensor:
    """Sum over the terms of the squared mean weight, a scalar. vectors: float [texts, terms], not negative."""
    return vectors.mean(dim=0).square().sum()


# -- Focal loss: down-weights well-classified examples, so that many easy ones do not dominate few hard ones ---------
#
# Lin et al. 2017, "Focal Loss for Dense Object Detection": FL(p_t) = -(1 - p_t)^gamma log(p_t) (equation 4), times a
# class weight (equation 5); p_t is the probability of the correct class. With gamma 0 it is the cross-entropy.


def focal_cross_entropy(logits: Tensor, targets: Tensor, gamma: float) -> Tensor:
    """Equation 4 for single-label classification, p_t from the softmax.

    logits: float [rows, classes]; targets: int [rows]. Returns float [rows], without the weight of equation 5.
    """
    log_right = logits.log_softmax(dim=-1).gather(1, targets[:, None]).squeeze(1)  # [rows]
    return _focus(log_right, gamma) * -log_right


def focal_binary(logits: Tensor, targets: Tensor, gamma: float, pos_weight: Tensor | None = None) -> Tensor:
    """Equation 4 for multi-label classification, p_t from the sigmoid.

    logits: float [rows, labels]; targets: 0.0 or 1.0 [rows, labels]; pos_weight: float [labels], the weight of equation
    5 for positive labels (1 for negative ones). Returns float [rows, labels].
    """
    log_right = torch.where(targets > 0.5, F.logsigmoid(logits), F.logsigmoid(-logits))
    losses = _focus(log_right, gamma) * -log_right
    return losses if pos_weight is None else torch.where(targets > 0.5, losses * pos_weight, losses)


def _focus(log_right: Tensor, gamma: float) -> Tensor:
    """(1 - p_t)^gamma from log(p_t). Its slope at p_t = 1 is infinite for gamma < 1, so 1 - p_t is clamped above 0."""
    if gamma == 0:
        return torch.ones_like(log_right)
    wrong = -torch.expm1(log_right)
    focus: Tensor = wrong.clamp_min(torch.finfo(wrong.dtype).tiny ** 0.5) ** gamma
    return focus
