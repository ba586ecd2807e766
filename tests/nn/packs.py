"""Packs for tests of attention: fixed tensors and runs."""

from __future__ import annotations

import torch

from maskwright.nn.attention import Run


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def runs_of(lengths):
    runs, start = [], 0
    for length in lengths:
        if runs and runs[-1].length == length:
            runs[-1] = Run(runs[-1].start, runs[-1].count + 1, length)
        else:
            runs.append(Run(start, 1, length))
        start += length
    return runs


def filled(module, seed=0, spread=0.5, dtype=torch.float64):
    """The module in `dtype` with every parameter drawn at a spread of 0.5."""
    module = module.to(dtype)
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=seed + 100 + number) * spread)
    return module


def places_with_holes(lengths, room, seed=0):
    """For each sequence, ascending places below `room` with holes between them: int64 [tokens]."""
    generator = torch.Generator().manual_seed(seed)
    chosen = [torch.randperm(room, generator=generator)[:length].sort().values for length in lengths]
    return torch.cat(chosen)
