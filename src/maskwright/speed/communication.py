"""Time that data parallel training spends on adding up gradients, and the memory of sharded training.

Ring all-reduce of N GPUs moves 2 (N - 1) / N times the float32 gradients over the slowest link (Patarasuk and Yuan
2009). It runs while the last micro-batch is in its backward pass, except for the last bucket. Sharded weights (FSDP)
are gathered for both passes and their gradients are reduced and scattered, in every micro-batch: half as much again.

In every step the processes also add up their numbers of labels, which NCCL does along a tree: its time grows with the
logarithm of N. It is hidden by the forward pass of the first micro-batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..core.config import check
from ..core.gpus import GB

if TYPE_CHECKING:
    from ..models.sizes import TrainingMemory

# Bytes per second of one direction, per GPU in a machine or per machine in a network; vendors' figures.
LINKS = {"nvlink": 300 * GB, "pcie": 32 * GB, "400gb": 50 * GB, "100gb": 12.5 * GB}  # A100: NVLink 3; PCIe 4.0 x16
GPUS_OF_MACHINE = 8
FORWARD, BACKWARD = 1 / 3, 2 / 3  # of the time of a step's passes
BUCKET_BYTES = 25 << 20  # of train.distributed.reduction
GRADIENT_BYTES = 4
AGREEMENT_SECONDS = 1e-4  # of a small message: measured over loopback with gloo


@dataclass(frozen=True)
class Communication:
    """Seconds of one step.

    link: bytes per second; compute: without communication; reduction: of all gradients (and weights, if they are
    sharded), of which `exposed` is not hidden by computation; agreement: of the small messages, as far as it is not
    hidden; deciding_tokens: tokens per optimizer step, without accumulation, from which all but the last bucket is
    hidden.
    """

    link: float
    compute: float
    reduction: float
    exposed: float
    agreement: float
    deciding_tokens: float

    @property
    def step(self) -> float:
        """The whole step."""
        return self.compute + self.exposed + self.agreement

    @property
    def efficiency(self) -> float:
        """Fraction of the speed without communication."""
        return self.compute / self.step


def link_of(name: str | None, gpus: int) -> float:
    """Bytes per second of a link: a name of LINKS, gigabytes per second as a number, or None for the usual one."""
    if name is None:
        name = "nvlink" if gpus <= GPUS_OF_MACHINE else "400gb"
    if name in LINKS:
        return LINKS[name]
    try:
        speed = float(name) * GB
    except ValueError:
        speed = 0.0
    check(
        0 < speed < float("inf"),
        f"Setting 'interconnect' is '{name}'; it must be one of {', '.join(LINKS)}, or gigabytes per second.",
    )
    return speed


def communication(
    gpus: int, parameters: int, link: float, compute: float, accumulation: int, tokens: float, *, shard: bool = False
) -> Communication:
    """The communication of one step. compute: its seconds on each GPU; tokens: of the step over all GPUs."""
    factor = 2 * (gpus - 1) / gpus
    reduction = factor * GRADIENT_BYTES * parameters / link
    last = factor * min(BUCKET_BYTES, GRADIENT_BYTES * parameters) / link
    window = BACKWARD / accumulation  # the part of the computing that can hide it
    if shard:
        reduction, window = 1.5 * reduction * accumulation, 1.0
    exposed = max(0.0, reduction - last - window * compute) + last
    deciding = (reduction - last) / (window * accumulation * compute / tokens)
    agreement = max(0.0, AGREEMENT_SECONDS * math.ceil(math.log2(gpus)) - FORWARD / accumulation * compute)
    return Communication(link, compute, reduction, exposed, agreement, deciding)


def sharded(memory: TrainingMemory, gpus: int, layers: int) -> TrainingMemory:
    """The memory of each GPU if weights, gradients and optimizer are sharded, and gathered layer by layer."""
    gathered = 2 * (memory.cast_weights or memory.weights) // max(layers, 1)  # the layer in use, and the next
    parts = {name: getattr(memory, name) // gpus for name in ("weights", "gradients", "optimizer")}
    return replace(memory, **parts, cast_weights=gathered)
