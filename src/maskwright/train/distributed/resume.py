"""Gives all processes the weights and the optimizer state of the first one."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .group import Group


def share_weights(group: Group, model: nn.Module) -> None:
    """Overwrite weights and buffers by those of the first process, which has read the checkpoint."""
    if group.world > 1:
        group.broadcast([*model.parameters(), *model.buffers()])


def share_moments(group: Group, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Overwrite the optimizer state by that of the first process."""
    if group.world == 1:
        return
    named = {name: one for name, one in model.named_parameters() if one.requires_grad}

    def describe() -> list[tuple[str, str, list[int]]]:
        return [
            (name, moment, list(value.shape))
            for name, parameter in named.items()
            for moment, value in optimizer.state.get(parameter, {}).items()
        ]

    tensors = []
    found: list[Any] = group.from_main(describe)
    for name, moment, shape in found:
        state = optimizer.state[named[name]]
        if moment not in state:
            device = torch.device("cpu") if moment == "step" else named[name].device
            state[moment] = torch.zeros(shape, dtype=torch.float32, device=device)
        tensors.append(state[moment])
    group.broadcast(tensors)
