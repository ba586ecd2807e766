"""Complexity of layer types by sequence length: published and measured.

Vaswani et al. 2017, table 1. With n tokens of width d, kernel size k and window r: self-attention costs n^2 d, a
recurrent layer n d^2, a convolution k n d^2, restricted attention r n d. The timed operations are those that the table
counts: attention without projections, one matrix product per step of an Elman cell, one convolution. The exponent of n
is the slope of a linear fit in log-log space.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.config import check
from ..core.progress import track
from ..nn.recurrent import PackedRecurrence, RecurrentLayer, fill_recurrent
from ..report import Block, Chart, Curves, Report, Series, Table, write_report

REPEATS = 5
MAX_ELEMENTS = 1 << 30  # in one tensor: 4 GiB
MIN_SECONDS = 0.02  # of one timing: shorter calls are repeated


@dataclass(frozen=True)
class Kind:
    """A row of the published table: complexity per layer, sequential operations, maximum path length."""

    name: str
    cost: str
    sequential: str
    path: str
    power: int  # exponent of n

    def flops(self, n: int, d: int, k: int, r: int) -> float:
        """Return the FLOPs of the layer."""
        return {
            "self-attention": 4.0 * n * n * d,  # scores and weighted sums
            "recurrent": 4.0 * n * d * d,  # input and recurrent products
            "convolutional": 2.0 * k * n * d * d,
            "restricted attention": 4.0 * r * n * d,
        }[self.name]


KINDS = (
    Kind("self-attention", "n^2 d", "1", "1", 2),
    Kind("recurrent", "n d^2", "n", "n", 1),
    Kind("convolutional", "k n d^2", "1", "log_k n", 1),
    Kind("restricted attention", "r n d", "1", "n / r", 1),
)


@dataclass(frozen=True)
class Measured:
    """Measurements of one layer type.

    seconds, flops: at each length; fitted: exponent of n over the longer half of the lengths.
    """

    kind: Kind
    seconds: tuple[float, ...]
    flops: tuple[float, ...]
    fitted: float

    def to_json(self) -> dict[str, Any]:
        """Return JSON-serializable values."""
        return {**asdict(self.kind), **asdict(self)} | {"kind": self.kind.name}


def power(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Fit b of cost = a size^b by least squares in log-log space, from at least two points."""
    return float(np.polyfit(np.log(np.asarray(sizes, float)), np.log(np.asarray(costs, float)), 1)[0])


def measure(
    lengths: Sequence[int], width: int = 64, filter_width: int = 3, window: int = 64, device: str = "cpu"
) -> list[Measured]:
    """Time the forward pass of one layer of each type on one sequence of each length.

    lengths: at least three, increasing; width: d; filter_width: k, an odd number; window: r, of which every length is
    a multiple. Raises ConfigError for invalid values.
    """
    check(len(lengths) >= 3, f"lengths are {list(lengths)}; pass at least three.")
    check(
        list(lengths) == sorted(set(lengths)) and lengths[0] >= 2, f"lengths are {list(lengths)}; they must increase."
    )
    check(width >= 1, f"width is {width}; it must be at least 1.")
    check(
        filter_width % 2 == 1 and 1 <= filter_width <= lengths[0],
        f"filter_width is {filter_width}; it must be odd and at most the shortest length, {lengths[0]}.",
    )
    check(
        window >= 1 and all(length % window == 0 for length in lengths),
        f"window is {window}; every length must be a multiple of it.",
    )
    most = max(lengths[-1] ** 2, lengths[-1] * width, filter_width * width**2)
    check(most <= MAX_ELEMENTS, f"A layer would allocate {most:,} elements; pass shorter lengths or a smaller width.")
    found = []
    with torch.inference_mode(), track("measuring", len(KINDS), "layer types") as progress:
        for number, kind in enumerate(KINDS, 1):
            layer = _layer(kind.name, width, filter_width, window, device)
            seconds = tuple(_time(partial(layer, _tokens(length, width, device))) for length in lengths)
            half = min(len(lengths) // 2, len(lengths) - 2)
            flops = tuple(kind.flops(length, width, filter_width, window) for length in lengths)
            found.append(Measured(kind, seconds, flops, power(lengths[half:], seconds[half:])))
            progress.update(number)
    return found


def _tokens(length: int, width: int, device: str) -> Tensor:
    """Return random inputs: float [length, width]."""
    return torch.randn(length, width, generator=torch.Generator().manual_seed(length)).to(device)


def _layer(name: str, width: int, filter_width: int, window: int, device: str) -> Callable[[Tensor], Tensor]:
    """Build one layer, from float [tokens, width] to the same shape."""
    if name == "self-attention":
        return lambda x: torch.softmax(x @ x.T * width**-0.5, dim=-1) @ x
    if name == "restricted attention":
        return lambda x: _in_blocks(x, window)
    if name == "convolutional":
        source = torch.Generator().manual_seed(filter_width)
        filters = (torch.randn(width, width, filter_width, generator=source) * width**-0.5).to(device)
        return lambda x: F.conv1d(x.T[None], filters, padding=filter_width // 2)[0].T
    layer = RecurrentLayer("rnn", width, width)
    for field, parameter in layer.kernel.named_parameters():
        fill_recurrent(layer.kernel, field, parameter, torch.Generator().manual_seed(0))
    layer.to(device)
    return lambda x: layer(x, PackedRecurrence([len(x)], x.device))[0]


def _in_blocks(x: Tensor, window: int) -> Tensor:
    """Apply attention within blocks of `window` tokens. x and result: float [tokens, width]."""
    blocks = x.view(-1, window, x.shape[1])
    weights = torch.softmax(blocks @ blocks.mT * x.shape[1] ** -0.5, dim=-1)
    return (weights @ blocks).reshape(x.shape)


def _time(run: Callable[[], Tensor]) -> float:
    """Return the median seconds of one call, after a warm-up."""

    def once(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            result = run()
        if result.is_cuda:
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / count

    first = min(once(1), once(1))
    count = max(int(MIN_SECONDS / max(first, 1e-9)), 1)
    return statistics.median(once(count) for _ in range(REPEATS))


# -- HTML report of the complexity table: published and measured -----------------------------------------------------


def write_complexity(path: Path, lengths: Sequence[int], width: int, found: Sequence[Measured]) -> None:
    """Write the report of layers measured at `lengths`."""
    chart = Chart(
        f"Milliseconds of a layer of width {width}",
        [Series(one.kind.name, list(lengths), [1e3 * value for value in one.seconds]) for one in found],
        x_label="tokens",
        log_y=True,
    )
    columns, rows = table(lengths, found)
    blocks: list[Block] = [Table(columns, rows, title="Layers"), Curves([chart], title="Time by sequence length")]
    write_report(path, Report("complexity", headline(found), blocks=blocks))


def headline(found: Sequence[Measured]) -> str:
    """Return the fitted exponents in one sentence."""
    parts = [f"{one.kind.name} {one.fitted:.2f} (published {one.kind.power})" for one in found]
    return f"Measured exponent of the sequence length: {', '.join(parts)}."


def table(lengths: Sequence[int], found: Sequence[Measured]) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of the table."""
    columns = [
        "layer",
        "complexity",
        "sequential operations",
        "maximum path length",
        *(f"n={length:,}" for length in lengths),
        "exponent of n",
    ]
    rows = [
        [
            one.kind.name,
            f"O({one.kind.cost})",
            f"O({one.kind.sequential})",
            f"O({one.kind.path})",
            *(f"{1e3 * value:.3g} ms" for value in one.seconds),
            f"{one.fitted:.2f} ({one.kind.power})",
        ]
        for one in found
    ]
    return columns, rows
