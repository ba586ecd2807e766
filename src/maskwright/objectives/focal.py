"""Focal loss: rows that are already judged well count little, so that many easy rows do not drown few hard ones.

Lin et al. 2017, "Focal Loss for Dense Object Detection": FL(p_t) = -(1 - p_t)^gamma log(p_t) (equation 4), times a
weight of the class (equation 5); p_t is the probability of the right answer. With gamma 0 it is the cross-entropy.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def focal_cross_entropy(logits: Tensor, targets: Tensor, gamma: float) -> Tensor:
    """Equation 4 for one of several classes, p_t from the softmax.

    logits: float [rows, classes]; targets: int [rows]. Returns float [rows]; the weight of equation 5 is the caller's.
    """
    log_right = logits.log_softmax(dim=-1).gather(1, targets[:, None]).squeeze(1)  # [rows]
    return _focus(log_right, gamma) * -log_right


def focal_binary(logits: Tensor, targets: Tensor, gamma: float, pos_weight: Tensor | None = None) -> Tensor:
    """Equation 4 for each of several decisions, p_t from the sigmoid.

    logits: float [rows, labels]; targets: 0.0 or 1.0 [rows, labels]; pos_weight: float [labels], the weight of equation
    5 where a label applies (1 where it does not). Returns float [rows, labels].
    """
    log_right = torch.where(targets > 0.5, F.logsigmoid(logits), F.logsigmoid(-logits))
    losses = _focus(log_right, gamma) * -log_right
    return losses if pos_weight is None else torch.where(targets > 0.5, losses * pos_weight, losses)


def _focus(log_right: Tensor, gamma: float) -> Tensor:
    """(1 - p_t)^gamma of log(p_t). Its slope at p_t = 1 is infinite for gamma below 1, so 1 - p_t stays above 0."""
    if gamma == 0:
        return torch.ones_like(log_right)
    wrong = -torch.expm1(log_right)
    focus: Tensor = wrong.clamp_min(torch.finfo(wrong.dtype).tiny ** 0.5) ** gamma
    return focus
