"""Adds up the gradients of all processes, in buckets, while the backward pass still runs.

A bucket is sent as soon as its gradients are complete in the last micro-batch of a step. All processes send the buckets
in the same order: that of the parameters from the last to the first, as the backward pass reaches them. After its
gradients, a bucket has one number per parameter: how many processes have a gradient for it. A parameter for which none
has a gradient keeps None, so the optimizer skips it as it does in a single process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .watch import Watch

BUCKET_BYTES = 25 << 20


@dataclass
class Bucket:
    """Parameters of one dtype and device that are reduced together.

    waiting: those without a complete gradient yet; reduced: the type in which they are added up, None for their own.
    """

    parameters: list[nn.Parameter]
    reduced: torch.dtype | None = None
    waiting: set[int] = field(default_factory=set)
    sent: Tensor | None = None
    work: dist.Work | None = None

    def send(self) -> None:
        """Start the reduction of the gradients; missing ones are zero."""
        first = self.parameters[0]
        sizes = [parameter.numel() for parameter in self.parameters]
        self.sent = torch.zeros(sum(sizes) + len(sizes), dtype=self.reduced or first.dtype, device=first.device)
        *parts, present = self.sent.split([*sizes, len(sizes)])
        for number, (parameter, part) in enumerate(zip(self.parameters, parts, strict=True)):
            if parameter.grad is not None:
                part.copy_(parameter.grad.reshape(-1))
                present[number] = 1
        self.work = dist.all_reduce(self.sent, async_op=True)

    def receive(self) -> None:
        """Wait for the sum, and set the gradients to it."""
        assert self.sent is not None and self.work is not None
        self.work.wait()
        sizes = [parameter.numel() for parameter in self.parameters]
        *parts, present = self.sent.split([*sizes, len(sizes)])
        for parameter, part, count in zip(self.parameters, parts, present.tolist(), strict=True):
            parameter.grad = part.view_as(parameter).to(parameter.dtype) if count else None
        self.sent = self.work = None


class GradientSum:
    """The reduction of a model's gradients. Use `with GradientSum.of(model, watch) as gradients`."""

    def __init__(self, buckets: list[Bucket], watch: Watch) -> None:
        self.buckets, self.watch = buckets, watch
        self._next: int | None = None  # the first bucket that is not sent; None outside the last micro-batch
        self._bucket_of = {id(one): bucket for bucket in buckets for one in bucket.parameters}

    @classmethod
    @contextmanager
    def of(cls, model: nn.Module, watch: Watch, reduced: torch.dtype | None = None) -> Iterator[GradientSum]:
        """Follow the trained parameters of `model` inside the block. reduced: see Bucket."""
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        gradients = cls(list(_buckets(parameters[::-1], reduced)), watch)
        hooks = [parameter.register_post_accumulate_grad_hook(gradients._complete) for parameter in parameters]
        try:
            yield gradients
        finally:
            for hook in hooks:
                hook.remove()

    def expect_last(self) -> None:
        """Before the backward pass of the last micro-batch: send each bucket once it is complete."""
        self._next = 0
        for bucket in self.buckets:
            bucket.waiting = {id(one) for one in bucket.parameters}

    def finish(self) -> None:
        """After the backward passes: send the rest, wait, and set all gradients to their sums."""
        with self.watch.blocked():
            for bucket in self.buckets[self._next or 0 :]:
                bucket.send()
            self._next = None
            for bucket in self.buckets:
                bucket.receive()

    def _complete(self, parameter: Tensor) -> None:
        if self._next is None:
            return
        self._bucket_of[id(parameter)].waiting.discard(id(parameter))
        while self._next < len(self.buckets) and not self.buckets[self._next].waiting:
            with self.watch.blocked():
                self.buckets[self._next].send()
            self._next += 1


def _buckets(parameters: list[nn.Parameter], reduced: torch.dtype | None) -> Iterator[Bucket]:
    """Neighboring parameters of one dtype and device, up to BUCKET_BYTES."""
    own: list[nn.Parameter] = []
    size = 0
    for parameter in parameters:
        kind = (parameter.dtype, parameter.device)
        if own and (size >= BUCKET_BYTES or kind != (own[0].dtype, own[0].device)):
            yield Bucket(own, reduced=reduced)
            own, size = [], 0
        own.append(parameter)
        size += parameter.numel() * parameter.element_size()
    if own:
        yield Bucket(own, reduced=reduced)
