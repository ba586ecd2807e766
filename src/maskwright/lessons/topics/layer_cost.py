"""The cost of a layer by text length: the published table, its operations, and measured times.

The timed operations are those that the table counts (Vaswani et al. 2017, table 1): attention without projections, one
matrix product per step of an Elman cell, one convolution.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..inputs import integer
from ..lesson import SESSION, Lesson

if TYPE_CHECKING:
    from torch import Tensor

    from ..recorder import LessonRecorder

PART = "Sizes and costs"
LENGTHS = (128, 512, 1024, 2048, 4096)
FILTER, WINDOW = 3, 16  # width of the convolution, and of restricted attention
REPEATS = 5
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


def power(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Fit b of cost = a size^b by least squares in log-log space, from at least two points."""
    return float(np.polyfit(np.log(np.asarray(sizes, float)), np.log(np.asarray(costs, float)), 1)[0])


def measure(lengths: Sequence[int], width: int) -> dict[str, list[float]]:
    """Time the forward pass of one layer of each kind on a sequence of each length, in seconds.

    lengths: multiples of WINDOW.
    """
    import torch

    found = {}
    with torch.inference_mode():
        for kind in KINDS:
            layer = _layer(kind.name, width, FILTER, WINDOW)
            inputs = [torch.randn(n, width, generator=torch.Generator().manual_seed(n)) for n in lengths]
            found[kind.name] = [_time(partial(layer, one)) for one in inputs]
    return found


def _layer(name: str, width: int, filter_width: int, window: int) -> Callable[[Tensor], Tensor]:
    """Build one layer, from float [tokens, width] to the same shape."""
    import torch
    import torch.nn.functional as F

    from ...nn.recurrent import PackedRecurrence, RecurrentLayer, fill_recurrent

    if name == "self-attention":
        return lambda x: torch.softmax(x @ x.T * width**-0.5, dim=-1) @ x
    if name == "restricted attention":
        return lambda x: _in_blocks(x, window)
    if name == "convolutional":
        source = torch.Generator().manual_seed(filter_width)
        filters = torch.randn(width, width, filter_width, generator=source) * width**-0.5
        return lambda x: F.conv1d(x.T[None], filters, padding=filter_width // 2)[0].T
    layer = RecurrentLayer("rnn", width, width)
    for field, parameter in layer.kernel.named_parameters():
        fill_recurrent(layer.kernel, field, parameter, torch.Generator().manual_seed(0))
    return lambda x: layer(x, PackedRecurrence([len(x)], x.device))[0]


def _in_blocks(x: Tensor, window: int) -> Tensor:
    """Apply attention within blocks of `window` tokens. x and result: float [tokens, width]."""
    import torch

    blocks = x.view(-1, window, x.shape[1])
    weights = torch.softmax(blocks @ blocks.mT * x.shape[1] ** -0.5, dim=-1)
    return (weights @ blocks).reshape(x.shape)


def _time(run: Callable[[], Tensor]) -> float:
    """Return the median seconds of one call, after a warm-up."""

    def once(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            run()
        return (time.perf_counter() - start) / count

    count = max(int(MIN_SECONDS / max(min(once(1), once(1)), 1e-9)), 1)
    return statistics.median(once(count) for _ in range(REPEATS))


def _complexity(record: LessonRecorder, width: int, length: int) -> None:
    from ...report import Bar, Bars, Chart, Curves, Series, Table

    slides = {
        "self-attention": ("n^2 d", "1", "1"),
        "recurrent": ("n d^2", "n", "n"),
        "convolutional": ("k n d^2", "1", "log_k n"),
        "restricted attention": ("r n d", "1", "n / r"),
    }
    rows = []
    for kind in KINDS:
        record.equal(
            f"{kind.name}: cost, steps, maximum path length",
            ", ".join(slides[kind.name]),
            f"{kind.cost}, {kind.sequential}, {kind.path}",
        )
        fitted = power(LENGTHS, [kind.flops(n, 64, FILTER, WINDOW) for n in LENGTHS])
        record.near(f"{kind.name}: exponent of n in its operations", float(kind.power), fitted, digits=2)
        rows.append((kind.name, f"O({kind.cost})", f"O({kind.sequential})", f"O({kind.path})"))
    record.show(Table(["layer", "cost", "sequential steps", "maximum path length"], rows))
    operations = {kind.name: kind.flops(length, width, FILTER, WINDOW) for kind in KINDS}
    ratio = operations["self-attention"] / operations["recurrent"]
    record.near("operations of self-attention relative to recurrent: n / d", length / width, ratio, digits=3, law=True)
    bars = [Bar(name, count, f"{count / 1e6:,.1f} M") for name, count in operations.items()]
    record.show(Bars(bars, title=f"Operations for {length:,} tokens of width {width:,}"))
    cross = next(
        n
        for n in range(1, 2 * width + 2)
        if KINDS[0].flops(n, width, FILTER, WINDOW) > KINDS[1].flops(n, width, FILTER, WINDOW)
    )
    record.answer(
        f"If the text is longer than the hidden size: with d = {width}, {cross:,} is the first length at which n² d "
        f"exceeds n d². But the recurrent layer needs {length:,} sequential steps for {length:,} tokens, attention one."
    )
    lengths, measured_width = (LENGTHS, 32) if not record.is_own else (own_lengths(length), width)
    seconds = measure(lengths, measured_width)
    # No check of the times: they depend on what else the machine computes.
    half = min(len(lengths) // 2, len(lengths) - 2)
    fitted = {name: power(lengths[half:], own[half:]) for name, own in seconds.items()}
    times = [
        (name, *(f"{1e3 * value:.3g} ms" for value in own), f"{fitted[name]:.2f} ({kind.power})")
        for kind, (name, own) in zip(KINDS, seconds.items(), strict=True)
    ]
    title = f"Measured times of one layer, width {measured_width}"
    record.show(Table(["layer", *(f"n = {n:,}" for n in lengths), "exponent of n"], times, title=title))
    lines = [Series(name, list(lengths), [1000 * one for one in own], smooth=False) for name, own in seconds.items()]
    record.show(Curves([Chart(title, lines, x_label="tokens", log_y=True)], title=""))


def own_lengths(length: int) -> tuple[int, ...]:
    """Return lengths up to this one to measure, multiples of WINDOW."""
    found = {max(length // part // WINDOW, 1) * WINDOW for part in (8, 4, 2, 1)}
    return tuple(sorted(found | {WINDOW, 2 * WINDOW, 4 * WINDOW}))


LESSONS = (
    Lesson(
        "complexity",
        PART,
        SESSION,
        "Complexity",
        "The cost of a layer by text length",
        "Attention compares every token with every other; a recurrent layer takes one step per token; convolutions "
        "and windows use neighbors. The table of the paper, its operations, and measured times.",
        ("lessons.topics.layer_cost:measure", "lessons.topics.layer_cost:power"),
        "When is self-attention more expensive than a recurrent layer?",
        _complexity,
        (
            integer("width", "Hidden size d", 768, 16, 4096, 16),
            integer("length", "Tokens n of a text", 4096, 16, 16_384, 16),
        ),
    ),
)
