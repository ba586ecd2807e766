"""AdamW with the published decay groups, and the learning-rate schedules (Devlin et al. 2019, appendix A.2)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import nn

Schedule = Literal["linear", "cosine", "constant", "inverse_sqrt"]
ADAM = (0.999, 1e-6)  # beta2 and epsilon, as published for BERT


def adamw(model: nn.Module, lr: float, weight_decay: float, adam: tuple[float, float] = ADAM) -> torch.optim.AdamW:
    """AdamW over the parameters that train: decay on matrices, none on biases and norms.

    adam: beta2 and epsilon; beta1 is 0.9. One fused pass over all tensors.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trained if parameter.ndim >= 2], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trained if parameter.ndim < 2], "weight_decay": 0.0},
    ]
    fused = trained[0].device.type in ("cpu", "cuda")
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, adam[0]), eps=adam[1], fused=fused)


def warmup_steps(warmup: float, steps: int) -> int:
    """`warmup` below 1 is a share of all steps, from 1 on a number of steps."""
    return round(warmup * steps) if warmup < 1 else int(warmup)


def learning_rate(step: int, *, steps: int, peak: float, warmup: int, schedule: Schedule) -> float:
    """The rate of step `step` (from 0): linear warm-up to `peak`, then decay to 0 at `steps`, or constant.

    "inverse_sqrt" falls with the root of the step and never reaches 0: with peak = (hidden * warmup) ** -0.5 it is the
    schedule of Vaswani et al. 2017, equation 3.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    if schedule == "constant":
        return peak
    if schedule == "inverse_sqrt":
        return peak * math.sqrt(max(warmup, 1) / (step + 1))
    progress = (step - warmup) / max(steps - warmup, 1)
    if schedule == "cosine":
        return peak * 0.5 * (1 + math.cos(math.pi * progress))
    return peak * (1 - progress)


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Give all groups this rate."""
    for group in optimizer.param_groups:
        group["lr"] = lr
