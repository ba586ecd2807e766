"""Dropout from torch's default generator, optimized for CPUs.

torch's own CPU kernel draws one random number per element. Here 64 random bits serve four elements, and dropping an
element clears all its bits: integer operations that vectorize, unlike booleans mixed with bfloat16. Timings are in
docs/explanation/decisions/packed-batches.md. 15 bits round the probability to 1/32,768 (0.1 becomes 0.100006); the
scale uses the rounded value, so the expectation is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .linear import Function

# -- Saving, restoring and seeding torch's default random generators, which dropout uses -----------------------------


@contextmanager
def preserve_generators(device: torch.device) -> Iterator[None]:
    """Restores the default generators of the CPU and of `device` at the end of the block."""
    cuda = [device] if device.type == "cuda" else []
    on_mps = torch.mps.get_rng_state() if device.type == "mps" else None
    try:
        with torch.random.fork_rng(devices=cuda):
            yield
    finally:
        if on_mps is not None:
            torch.mps.set_rng_state(on_mps)


def seed_generators(seed: int, device: torch.device) -> None:
    """Seeds only the default generators of the CPU and of `device`, as `torch.manual_seed` would."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.default_generators[index].manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


_BITS = 15
_INT64 = torch.iinfo(torch.int64)
_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # by element size in bytes


def dropout(x: Tensor, probability: float, training: bool = True) -> Tensor:
    """Zeros each element with `probability` and scales the others, so that the expectation stays x.

    x: float of any shape [...]; the result has the same. Off if not `training` or if `probability` is 0.
    """
    if not training or probability == 0.0 or x.numel() == 0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, probability)
    result: Tensor = _CpuDropout.apply(x, probability)
    return result


class _CpuDropout(Function):
    """Stores two bytes per element for the backward pass."""

    @staticmethod
    def forward(context: Any, x: Tensor, probability: float) -> Tensor:
        """x: any shape [...]; the result has the same."""
        levels = 1 << _BITS
        threshold = min(max(round(probability * levels), 1), levels - 1)
        keep = _keep_mask(x.shape, threshold)
        context.save_for_backward(keep)
        context.scale = levels / (levels - threshold)
        return _clear(x, keep).mul_(context.scale)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Gradients pass where elements were kept; same shape [...]."""
        (keep,) = context.saved_tensors
        return _clear(gradients[0], keep).mul_(context.scale), None


def _keep_mask(shape: torch.Size, threshold: int) -> Tensor:
    """int16 of `shape`: all bits set to keep an element; 0 with probability threshold / 2^15."""
    words = torch.randint(_INT64.min, _INT64.max, (-(-shape.numel() // 4),), dtype=torch.int64)
    draws = words.view(torch.int16)[: shape.numel()].view(shape).bitwise_and_((1 << _BITS) - 1)
    # draw - threshold is negative for the lowest `threshold` draws; the shift spreads its sign over all bits.
    return draws.sub_(threshold).bitwise_right_shift_(_BITS).bitwise_not_()


def _clear(x: Tensor, keep: Tensor) -> Tensor:
    """x where the bits of `keep` are set, else 0. Both have the same shape [...]."""
    integer = _INTEGERS[x.element_size()]
    return (x.view(integer) & keep.to(integer)).view(x.dtype)
