"""Sharded training (FSDP2): each process stores a part of every weight, its gradient and its optimizer state.

The weights of a Transformer layer are gathered before it runs, forward and backward; all others are one group. The
network that the job evaluates and saves stays an ordinary one, whose weights exist only while they are needed: see
`whole`. So checkpoints have the same files for any number of processes, with and without sharding.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard, distribute_tensor

from ...core.errors import InputError
from ...data.batch import Batch
from ...models.transformer import Layer, Transformer
from ...objectives.outcome import LossSums
from .group import ProcessGroup


class ShardedNetwork:
    """The sharded copy of a job's network. job: its model has the same weights in all processes, and is emptied.

    reduced: the type in which gradients are added up; None for that of the weights.
    """

    def __init__(self, job: Any, group: ProcessGroup, reduced: torch.dtype | None) -> None:
        self.job, self.group = job, group
        self.plain: nn.Module = job.model
        _check(self.plain)
        tokenizers = {id(one): one for part in self.plain.modules() if (one := getattr(part, "tokenizer", None))}
        self.sharded: nn.Module = _moved(self.plain, tokenizers)
        self._root = _Root(self)
        mesh = init_device_mesh(next(self.plain.parameters()).device.type, (group.world,))
        policy = MixedPrecisionPolicy(reduce_dtype=reduced)
        with group.watch.blocked():
            for layer in _layers(self.sharded):
                fully_shard(layer, mesh=mesh, mp_policy=policy)
            fully_shard(self._root, mesh=mesh, mp_policy=policy)
        self.mesh = mesh

    def outcome(self, batch: Batch) -> LossSums:
        """What the job computes for a batch."""
        with self.group.watch.blocked():
            losses: dict[str, Tensor] = self._root(batch)
        found = self._root.last
        assert found is not None
        found.losses, self._root.last = losses, None
        return found

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Give the job's network its weights inside the block, in the first process."""
        self.gather(keep=self.group.is_main)
        try:
            yield
        finally:
            self._empty()

    def gather(self, keep: bool = True) -> None:
        """Give the job's network its weights. keep: in this process."""
        sharded = dict(self.sharded.named_parameters())
        with torch.no_grad(), self.group.watch.blocked():
            for name, parameter in self.plain.named_parameters():
                full = _full(sharded[name])
                if keep:
                    parameter.data = full

    def moments(self, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
        """The optimizer state as `checkpoint.moments_of` returns it; empty except in the first process."""
        found = {}
        with torch.no_grad(), self.group.watch.blocked():
            for name, parameter in self.sharded.named_parameters():
                for moment, value in optimizer.state.get(parameter, {}).items():
                    full = _full(value)
                    if self.group.is_main:
                        found[f"{moment}/{name}"] = full.cpu().contiguous()
        return found

    def restore(self, optimizer: torch.optim.Optimizer, moments: Mapping[str, Tensor]) -> None:
        """Set the optimizer state. moments: of the first process, which has read them; ignored in others."""
        named = dict(self.sharded.named_parameters())
        shapes: list[Any] = self.group.from_main(lambda: [[key, list(value.shape)] for key, value in moments.items()])
        for key, shape in shapes:
            moment, _, name = key.partition("/")
            device = torch.device("cpu") if moment == "step" else named[name].device
            full = moments[key].to(device) if self.group.is_main else torch.empty(shape, device=device)
            with self.group.watch.blocked():
                if moment == "step":
                    self.group.broadcast([full])
                    optimizer.state[named[name]][moment] = full
                else:
                    optimizer.state[named[name]][moment] = distribute_tensor(full, self.mesh, [Shard(0)])

    def _empty(self) -> None:
        for parameter in self.plain.parameters():
            parameter.data = parameter.data.new_empty(0)


class _Root(nn.Module):
    """Computes a batch of the job with the sharded network. Its weights are gathered around `forward`."""

    def __init__(self, owner: ShardedNetwork) -> None:
        super().__init__()
        self.network = owner.sharded
        self.job, self.plain = owner.job, (owner.plain,)  # in a tuple: not a part of this module
        self.last: LossSums | None = None

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The losses by part; a dict, in which FSDP finds the tensors."""
        self.job.model = self.network
        try:
            self.last = self.job.outcome(batch)
        finally:
            self.job.model = self.plain[0]
        return dict(self.last.losses)


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


def _check(network: nn.Module) -> None:
    """Raise InputError for a network that cannot be sharded."""
    if not any(isinstance(part, Transformer) for part in network.modules()):
        raise InputError("--shard is for Transformers: remove it to train this network.")


def _full(tensor: Tensor) -> Tensor:
    """The whole of a sharded tensor."""
    full: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor  # a DTensor
    return full.detach()
