"""Sharded training (FSDP2): each process stores a part of every weight, its gradient and its optimizer state.

The weights of a Transformer layer are gathered before it runs, forward and backward; all others are one group. The
network that the job evaluates and saves stays an ordinary one, whose weights exist only while they are needed: see
`whole`. So checkpoints have the same files for any number of processes, with and without sharding.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard, distribute_tensor

from ..core.errors import InputError
from ..models.transformer import Layer, Transformer
from .distributed import JobModule, ProcessGroup


class ShardedNetwork:
    """The sharded copy of a job's network. job: its model has the same weights in all processes, and is emptied.

    reduced: the type in which gradients are added up; None for that of the weights.
    """

    def __init__(self, job: Any, group: ProcessGroup, reduced: torch.dtype | None) -> None:
        self.group = group
        self.plain: nn.Module = job.model
        if not any(isinstance(part, Transformer) for part in self.plain.modules()):
            raise InputError("--shard is for Transformers: remove it to train this network.")
        tokenizers = {id(one): one for part in self.plain.modules() if (one := getattr(part, "tokenizer", None))}
        self.sharded = _moved(self.plain, tokenizers)
        self.module = JobModule(job, self.sharded)
        self.mesh = init_device_mesh(next(self.plain.parameters()).device.type, (group.world,))
        policy = MixedPrecisionPolicy(reduce_dtype=reduced)
        with group.talking():
            for part in (*_layers(self.sharded), self.module):
                fully_shard(part, mesh=self.mesh, mp_policy=policy)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Give the job's network its weights inside the block, in the first process."""
        self.gather(keep=self.group.is_main)
        try:
            yield
        finally:
            for parameter in self.plain.parameters():
                parameter.data = parameter.data.new_empty(0)

    def gather(self, keep: bool = True) -> None:
        """Give the job's network its weights. keep: in this process."""
        sharded = dict(self.sharded.named_parameters())
        with torch.no_grad(), self.group.talking():
            for name, parameter in self.plain.named_parameters():
                full = _full(sharded[name])
                if keep:
                    parameter.data = full

    def moments(self, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
        """The optimizer state as `checkpoint.moments_of` returns it; empty except in the first process."""
        found = {}
        with torch.no_grad(), self.group.talking():
            for name, parameter in self.sharded.named_parameters():
                for moment, value in optimizer.state.get(parameter, {}).items():
                    full = _full(value)
                    if self.group.is_main:
                        found[f"{moment}/{name}"] = full.cpu().contiguous()
        return found

    def restore(self, optimizer: torch.optim.Optimizer, moments: Iterable[tuple[str, Tensor]]) -> None:
        """Set the optimizer state to that of `Group.shared`."""
        named = dict(self.sharded.named_parameters())
        for key, value in moments:
            moment, _, name = key.partition("/")
            if moment != "step":
                with self.group.talking():
                    value = distribute_tensor(value.to(named[name].device), self.mesh, [Shard(0)])  # noqa: PLW2901
            optimizer.state[named[name]][moment] = value


def _moved(network: nn.Module, shared: dict[int, Any]) -> nn.Module:
    """A copy of a network that takes over its weights, which are never in memory twice. shared: objects of both."""
    weights = [parameter.data for parameter in network.parameters()]
    for parameter in network.parameters():
        parameter.data = parameter.data.new_empty(0)
    copied = copy.deepcopy(network, shared)
    for parameter in copied.parameters():
        parameter.data = weights.pop(0)
    return copied


def _layers(network: nn.Module) -> list[Layer]:
    """The layers that can be gathered one by one: those that run once, and whose weights only they use."""
    found = []
    for part in network.modules():
        if isinstance(part, Transformer) and len(set(part.layer_groups)) == len(part.layer_groups):
            found += [one for one in part.layers if isinstance(one, Layer) and one.relative is None]
    return found


def _full(tensor: Tensor) -> Tensor:
    """The whole of a sharded tensor."""
    full: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor  # a DTensor
    return full.detach()
