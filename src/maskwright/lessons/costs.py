"""Costs that lessons compute: FLOPs of published training runs, and of layers by text length.

The timed operations of a layer are those that Vaswani et al. 2017, table 1, count: attention without projections, one
matrix product per step of an Elman cell, one convolution.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..models.sizes import TRAINING_PASSES, layer_entries
from ..nn.recurrent import PackedRecurrence, RecurrentLayer, fill_recurrent
from ..speed.plan_config import PlanConfig
from ..speed.workload import workload_of

TERA = 1e12
DAY = 86_400.0
TPU_V3 = 123 * TERA  # per chip: Google Cloud TPU v3 documentation
P100_SUSTAINED = 9.5 * TERA  # assumed by Vaswani et al. 2017, footnote 5
FILTER, WINDOW = 3, 16  # width of the convolution, and of restricted attention
REPEATS = 5
MIN_SECONDS = 0.02  # of one timing: shorter calls are repeated


def budget(devices: int, peak: float, seconds: float) -> float:
    """Return the FLOPs of `devices` at their peak, as papers report training cost."""
    return devices * peak * seconds


def transformer_count(hidden: int, inner: int, steps: float, vocab_size: int = 37_000, batch: float = 25_000) -> float:
    """Return training FLOPs of the original encoder-decoder, with `batch` source and target tokens per step.

    6 layers each; attention assumes sentences of 25 tokens, where its cost is negligible; every target is scored.
    """
    encoder, decoder = layer_entries(hidden, inner), layer_entries(hidden, inner, cross=True)
    length = 25
    attention = 4 * hidden * (length + (length + 1) / 2 + length)  # encoder, decoder, cross-attention
    token = 6 * (2 * (encoder + decoder) + attention) + 2 * hidden * vocab_size
    return TRAINING_PASSES * steps * batch * token


def bert_work(name: str) -> float:
    """Return the FLOPs of the original BERT run: 1,000,000 steps of 256 sequences, 90% of length 128, 10% of 512."""
    return sum(
        steps * 256 * length * workload_of(PlanConfig(preset=name, max_length=length)).flops().total
        for steps, length in ((9e5, 128), (1e5, 512))
    )


@dataclass(frozen=True)
class Kind:
    """A row of the published table: complexity per layer, sequential operations, maximum path length."""

    name: str
    cost: str
    sequential: str
    path: str
    power: int  # exponent of n

    def flops(self, n: int, d: int, k: int, r: int) -> float:
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
    found = {}
    with torch.inference_mode():
        for kind in KINDS:
            layer = _layer(kind.name, width, FILTER, WINDOW)
            inputs = [torch.randn(n, width, generator=torch.Generator().manual_seed(n)) for n in lengths]
            found[kind.name] = [_time(partial(layer, one)) for one in inputs]
    return found


def _layer(name: str, width: int, filter_width: int, window: int) -> Callable[[Tensor], Tensor]:
    """Build one layer, from float [tokens, width] to the same shape."""
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


def own_lengths(length: int) -> tuple[int, ...]:
    """Return lengths up to this one to measure, multiples of WINDOW."""
    found = {max(length // part // WINDOW, 1) * WINDOW for part in (8, 4, 2, 1)}
    return tuple(sorted(found | {WINDOW, 2 * WINDOW, 4 * WINDOW}))
