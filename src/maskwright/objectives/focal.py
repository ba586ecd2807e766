"""Focal loss: down-weights well-classified examples, so that many easy ones do not dominate few hard ones.

Lin et al. 2017, "Focal Loss for Dense Object Detection": FL(p_t) = -(1 - p_t)^gamma log(p_t) (equation 4), times a
class weight (equation 5); p_t is the probability of the correct class. With gamma 0 it is the cross-entropy.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


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
