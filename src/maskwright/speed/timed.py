"""Requests of a text-encoder benchmark backend: embeddings, throughput, latency and memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.memory import peak_memory
from .backend_process import answer

COMMON = 1e-5  # relative to the norm of the mean: shorter differences are rounding
Vectors = Callable[[Sequence[str]], np.ndarray]  # texts -> float [texts, size]
Opener = Callable[[dict[str, Any]], Vectors]


class TimedEncoder:
    """Answers benchmark requests for one function from texts to embeddings.

    open_vectors: loads the function from the settings of the `load` request.
    """

    def __init__(self, open_vectors: Opener) -> None:
        self._open = open_vectors
        self._vectors: Vectors | None = None
        self._texts: list[str] = []

    def serve(self) -> None:
        """Answer requests until the parent closes the connection."""
        names = ("load", "texts", "vectors", "bulk", "latency", "memory")
        answer({name: getattr(self, name) for name in names})

    def load(self, **settings: Any) -> float:
        """Load the model; returns the seconds taken."""
        started = time.perf_counter()
        self._vectors = self._open(settings)
        return time.perf_counter() - started

    def texts(self, texts: list[str]) -> int:
        """Store the texts for later requests; returns their number."""
        self._texts = texts
        return len(texts)

    def vectors(self, count: int) -> list[list[float]]:
        """Return the embeddings of the first `count` texts."""
        found: list[list[float]] = self._run(self._texts[:count]).astype(np.float64).tolist()
        return found

    def bulk(self, count: int, list_size: int | None = None) -> float:
        """Return the seconds for the first `count` texts, in one call or in lists of `list_size`."""
        texts = self._texts[:count]
        if not texts:
            raise RuntimeError("no texts: send a 'texts' request first")
        started = time.perf_counter()
        for begin in range(0, len(texts), list_size or len(texts)):
            self._run(texts[begin : begin + (list_size or len(texts))])
        return time.perf_counter() - started

    def latency(self, text: str, times: int, most_seconds: float = 10.0) -> list[float]:
        """Return the seconds of each of up to `times` single requests, after three warm-up requests."""
        for _ in range(3):
            self._run([text])
        found: list[float] = []
        begin = time.perf_counter()
        while len(found) < times and (len(found) < 3 or time.perf_counter() - begin < most_seconds):
            started = time.perf_counter()
            self._run([text])
            found.append(time.perf_counter() - started)
        return found

    def memory(self) -> int:
        """Return the peak memory of this process in bytes: GPU memory if a GPU was used, else main memory."""
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available() and torch.cuda.max_memory_allocated():
            return int(torch.cuda.max_memory_allocated())
        return peak_memory()

    def _run(self, texts: Sequence[str]) -> np.ndarray:
        if self._vectors is None:
            raise RuntimeError("no model: send a 'load' request first")
        return np.asarray(self._vectors(texts))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the `share` quantile of the values."""
    return float(np.quantile(np.asarray(values), share))


def centered_cosines(vectors: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return row-wise cosine similarities after subtracting the mean of the reference from both: [texts].

    Embeddings of one model share a large common component, so any two are similar; without it, a backend that
    confuses its inputs is detected. vectors, reference: float [texts, size].
    """
    mean = reference.mean(axis=0, keepdims=True)
    one, other = vectors - mean, reference - mean
    lengths = np.linalg.norm(one, axis=1), np.linalg.norm(other, axis=1)
    nothing = COMMON * np.linalg.norm(mean)
    are_common = (lengths[0] <= nothing) & (lengths[1] <= nothing)  # rows equal to the mean, as for identical texts
    cosines = (one * other).sum(axis=1) / np.maximum(lengths[0] * lengths[1], 1e-30)
    return np.where(are_common, 1.0, cosines)
