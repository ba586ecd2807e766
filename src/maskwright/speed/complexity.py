"""What a layer costs as texts grow: the published table, and the same layers measured here.

Vaswani et al. 2017, table 1. With n tokens of width d, a filter over k neighbours and a window of r: self-attention
costs n^2 d, a recurrent layer n d^2, a convolution k n d^2, restricted attention r n d. What is timed is what the table
counts: attention without its projections, one matrix product a step of an Elman cell, one convolution. The power of n
is the slope of a straight line through the logarithms.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.config import check
from ..core.progress import track
from ..nn.reading import Reading
from ..nn.recurrent import RecurrentLayer, fill_recurrent

REPEATS = 5
MOST_NUMBERS = 1 << 30  # of one layer at once: 4 GiB
LEAST_SECONDS = 0.02  # of one timing: shorter calls are repeated


@dataclass(frozen=True)
class Kind:
    """A row of the published table: cost of a layer, steps that must follow each other, longest way between tokens."""

    name: str
    cost: str
    sequential: str
    path: str
    power: int  # of n

    def flops(self, n: int, d: int, k: int, r: int) -> float:
        """Multiplications and additions of the layer, by its formula."""
        return {
            "self-attention": 4.0 * n * n * d,  # scores and weighted sums
            "recurrent": 4.0 * n * d * d,  # from the token, and from what is remembered
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
    """One kind of layer. seconds, flops: at each length; fitted: power of n over the longer half of the lengths."""

    kind: Kind
    seconds: tuple[float, ...]
    flops: tuple[float, ...]
    fitted: float

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self.kind), **asdict(self)} | {"kind": self.kind.name}


def power(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """b of cost = a size^b, by least squares of the logarithms. Two points or more."""
    return float(np.polyfit(np.log(np.asarray(sizes, float)), np.log(np.asarray(costs, float)), 1)[0])


def measure(
    lengths: Sequence[int], width: int = 64, filter_width: int = 3, window: int = 64, device: str = "cpu"
) -> list[Measured]:
    """Time one layer of each kind, forward, over one sequence of each length.

    lengths: at least three, rising; width: d; filter_width: k, an odd number; window: r, at most the shortest length,
    of which every length is a multiple. Raises ConfigError for others.
    """
    check(len(lengths) >= 3, f"lengths are {list(lengths)}; a power needs at least three.")
    check(list(lengths) == sorted(set(lengths)) and lengths[0] >= 2, f"lengths are {list(lengths)}; they must rise.")
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
    check(most <= MOST_NUMBERS, f"A layer would hold {most:,} numbers at once; give shorter lengths or less width.")
    found = []
    with torch.inference_mode(), track("measuring", len(KINDS), "kinds of layers") as progress:
        for number, kind in enumerate(KINDS, 1):
            layer = _layer(kind.name, width, filter_width, window, device)
            seconds = tuple(_time(partial(layer, _tokens(length, width, device))) for length in lengths)
            half = min(len(lengths) // 2, len(lengths) - 2)
            flops = tuple(kind.flops(length, width, filter_width, window) for length in lengths)
            found.append(Measured(kind, seconds, flops, power(lengths[half:], seconds[half:])))
            progress.update(number)
    return found


def _tokens(length: int, width: int, device: str) -> Tensor:
    """float [length, width]."""
    return torch.randn(length, width, generator=torch.Generator().manual_seed(length)).to(device)


def _layer(name: str, width: int, filter_width: int, window: int, device: str) -> Callable[[Tensor], Tensor]:
    """One layer, from float [tokens, width] to the same shape."""
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
    return lambda x: layer(x, Reading([len(x)], x.device))[0]


def _in_blocks(x: Tensor, window: int) -> Tensor:
    """Attention inside blocks of `window` tokens: each sees so many. float [tokens, width], as is the result."""
    blocks = x.view(-1, window, x.shape[1])
    weights = torch.softmax(blocks @ blocks.mT * x.shape[1] ** -0.5, dim=-1)
    return (weights @ blocks).reshape(x.shape)


def _time(run: Callable[[], Tensor]) -> float:
    """Seconds of one call: the median of some timings after a first one."""

    def once(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            result = run()
        if result.is_cuda:
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / count

    first = min(once(1), once(1))
    count = max(int(LEAST_SECONDS / max(first, 1e-9)), 1)
    return statistics.median(once(count) for _ in range(REPEATS))
