"""AdamW with the published decay groups (Devlin et al. 2019, appendix A.2)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.graph import increment_version

ADAM = (0.999, 1e-6)  # beta2 and epsilon, as published for BERT


def adamw(model: nn.Module, lr: float, weight_decay: float, adam: tuple[float, float] = ADAM) -> torch.optim.AdamW:
    """AdamW over the trainable parameters: weight decay on matrices, none on biases and norms.

    adam: beta2 and epsilon; beta1 is 0.9. Fused on CPU and CUDA.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trained if parameter.ndim >= 2], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trained if parameter.ndim < 2], "weight_decay": 0.0},
    ]
    fused = trained[0].device.type in ("cpu", "cuda")
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, adam[0]), eps=adam[1], fused=fused)
    if fused:
        optimizer.register_step_post_hook(_count_versions)
    return optimizer


def _count_versions(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Increment the version counters of the parameters, which a fused step does not do."""
    for group in optimizer.param_groups:
        increment_version(group["params"])


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of all parameter groups."""
    for group in optimizer.param_groups:
        group["lr"] = lr
