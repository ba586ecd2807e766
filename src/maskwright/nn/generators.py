"""Saving, restoring and seeding torch's default random generators, which dropout uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


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
