"""Traces a network as a program with dynamic batch size and lengths, and writes it in torch's own format."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core import storage
from .cached import ALL_TOKENS, PAST_SOURCE, PAST_TOKENS, ROWS, SOURCE, TOKENS, Network
from .runtimes import MASK, MEMORY, MEMORY_MASK, PAST, Format

# Sizes of the traced sample. All differ, so that no two axes are taken for one; a cache is longer than nothing.
_SAMPLE = {"batch": 3, "choices": 2, "sequence": 7, ROWS: 3, SOURCE: 11, PAST_SOURCE: 5, PAST_TOKENS: 6}
_SAMPLE[ALL_TOKENS] = _SAMPLE[TOKENS] + _SAMPLE[PAST_TOKENS]
FLOATS = (PAST, MEMORY)  # inputs of float32, by how their names begin; the others are int64


def trace(network: Network, longest: int) -> torch.export.ExportedProgram:
    """Returns the program of a network. longest: most tokens of a sequence."""
    network = network.eval().requires_grad_(False)
    # These depend on one another: all tokens are the cached and the new ones.
    dims: dict[str, Any] = dict.fromkeys((ALL_TOKENS, SOURCE, PAST_SOURCE), torch.export.Dim.AUTO)
    axes = []
    for name in network.inputs:
        for axis in network.axes(name):
            if isinstance(axis, str) and axis not in dims:
                most = {"max": max(longest, 2)} if axis == "sequence" else {}
                dims[axis] = torch.export.Dim(axis, min=int(axis != PAST_TOKENS), **most)
        axes.append({place: dims[axis] for place, axis in enumerate(network.axes(name)) if isinstance(axis, str)})
    with quiet():
        return torch.export.export(network, sample(network), dynamic_shapes=(tuple(axes),), strict=False)


def sample(network: Network) -> tuple[Tensor, ...]:
    """Inputs to trace with, a separate tensor for each."""
    found = []
    for name in network.inputs:
        shape = [axis if isinstance(axis, int) else _SAMPLE[axis] for axis in network.axes(name)]
        one = torch.zeros(shape, dtype=torch.float32 if name.startswith(FLOATS) else torch.int64)
        if name in (MASK, MEMORY_MASK):
            one += 1
            one[0, ..., 4:] = 0  # unequal rows
        found.append(one)
    return tuple(found)


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


def write_torch(program: torch.export.ExportedProgram, network: Network, folder: Path, opset: int) -> list[str]:
    """Writes `folder/torch/model.pt2`, which maskwright never reads: its loader may run code of the file."""
    name = f"torch/{network.name}.pt2"
    data = io.BytesIO()
    with quiet():
        torch.export.save(program, data)
    storage.write_bytes(folder / name, data.getvalue())
    return [name]


FORMAT = Format(write_torch, ('program = torch.export.load("{file}").module()  # only files that you trust',))
