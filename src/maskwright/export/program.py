"""Traces a network as a program with dynamic batch size and length."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from .network import PaddedNetwork
from .padding import IDS, MASK

AXES = {2: ("batch", "sequence"), 3: ("batch", "choices", "sequence")}
# Sizes of the traced sample: all differ, so that no two axes are taken for one.
_SAMPLE = {2: (3, 7), 3: (3, 2, 7)}


def trace(network: PaddedNetwork, longest: int) -> torch.export.ExportedProgram:
    """Returns the program of a network. longest: most tokens of a sequence."""
    rank = network.rank
    limits = {name: torch.export.Dim(name, min=1) for name in AXES[rank]}
    limits["sequence"] = torch.export.Dim("sequence", min=1, max=max(longest, 2))
    axes = dict(enumerate(limits.values()))
    network = network.eval().requires_grad_(False)
    with quiet():
        return torch.export.export(
            network, sample(network), dynamic_shapes=(tuple(axes for _ in network.inputs),), strict=False
        )


def sample(network: PaddedNetwork) -> tuple[Tensor, ...]:
    """Inputs to trace with: int64 tensors of the network's rank, a separate one for each input."""
    shape = _SAMPLE[network.rank]
    found: dict[str, Tensor] = {IDS: torch.zeros(shape, dtype=torch.int64), MASK: torch.ones(shape, dtype=torch.int64)}
    found[MASK][0, ..., 4:] = 0  # unequal rows
    return tuple(found.get(name, torch.zeros(shape, dtype=torch.int64)) for name in network.inputs)


@contextmanager
def quiet() -> Iterator[None]:
    """Silences the notes of exporters and quantizers about their own packages."""
    names = ("", "torch.onnx", "torch.export", "onnxscript", "onnx_ir")  # ONNX Runtime uses the root logger
    loggers: list[Any] = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
