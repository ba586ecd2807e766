"""Measures the speed of a model before the server is ready, and the pack size from which it no longer gains.

The first pack of a model also prepares its weights, so no request has to wait for that.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..data.batch import Batch
from ..models.model import Model
from ..tasks.examples import Forward

SMALLEST, LARGEST_CPU, LARGEST_GPU = 256, 2048, 65536
GAIN = 1.05  # a larger pack must be this much faster per token
LONGEST_SECONDS = 0.15  # a new request may have to wait for a whole pack
SECONDS = 1.5  # for one model
TEXT_TOKENS = 32


@dataclass(frozen=True)
class Speed:
    """Measured speed. tokens_per_second: in packs of batch_tokens tokens."""

    tokens_per_second: float
    batch_tokens: int


@dataclass(frozen=True)
class OnePass(Forward):
    """A pass of the model, complete when the first of its results is on the CPU."""

    def __call__(self, batch: Batch) -> Sequence[Tensor]:
        """The first result of the pack."""
        return self.model.one_pass(batch)[:1].float().cpu().unbind()


def measure(model: Model, batch_tokens: int | None = None) -> Speed:
    """Runs packs of growing size; batch_tokens: measure this size only."""
    forward = OnePass(model)
    length = min(TEXT_TOKENS, model.config.max_position_embeddings)
    start = time.monotonic()
    _seconds(forward, length, length)  # prepares the weights
    if batch_tokens is not None:
        return Speed(batch_tokens / _seconds(forward, batch_tokens, length), batch_tokens)
    largest = LARGEST_CPU if forward.device.type == "cpu" else LARGEST_GPU
    best = Speed(SMALLEST / _seconds(forward, SMALLEST, length), SMALLEST)
    while best.batch_tokens < largest and time.monotonic() - start < SECONDS:
        size = 2 * best.batch_tokens
        if size > LONGEST_SECONDS * best.tokens_per_second:
            break
        speed = size / _seconds(forward, size, length)
        if speed < GAIN * best.tokens_per_second:
            break
        best = Speed(speed, size)
    return best


def _seconds(forward: Forward, tokens: int, length: int) -> float:
    """Time of one pack, the better of two, to be less sensitive to what else the machine does."""
    vocab = forward.model.config.vocab_size
    ids = np.random.default_rng(0).integers(0, vocab, size=(max(tokens // length, 1), length))
    batch = Batch.from_sequences(list(ids)).to(forward.device)
    times = []
    with torch.inference_mode():
        for _ in range(2):
            start = time.monotonic()
            forward(batch)
            times.append(time.monotonic() - start)
    return max(min(times), 1e-6)
