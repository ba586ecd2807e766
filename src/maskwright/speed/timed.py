"""What a contender of `contest` is asked for when it turns texts into vectors: vectors, bulk time, latency, memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.memory import peak_memory
from .contest import answer

COMMON = 1e-5  # of the common part's length: what is shorter is rounding
Vectors = Callable[[Sequence[str]], np.ndarray]  # texts -> float [texts, size]
Opener = Callable[[dict[str, Any]], Vectors]


class TimedEncoder:
    """Answers requests about one function from texts to vectors.

    open_vectors: loads it, from the settings of the first request.
    """

    def __init__(self, open_vectors: Opener) -> None:
        self._open = open_vectors
        self._vectors: Vectors | None = None
        self._texts: list[str] = []

    def serve(self) -> None:
        """Until the parent goes away."""
        names = ("load", "texts", "vectors", "bulk", "latency", "memory")
        answer({name: getattr(self, name) for name in names})

    def load(self, **settings: Any) -> float:
        """Load the model. Returns the seconds that it took."""
        started = time.perf_counter()
        self._vectors = self._open(settings)
        return time.perf_counter() - started

    def texts(self, texts: list[str]) -> int:
        """Keep these for the requests that follow."""
        self._texts = texts
        return len(texts)

    def vectors(self, count: int) -> list[list[float]]:
        """Of the first texts, for the comparison of contenders before anything is timed."""
        found: list[list[float]] = self._run(self._texts[:count]).astype(np.float64).tolist()
        return found

    def bulk(self, count: int, list_size: int | None = None) -> float:
        """Seconds for the first `count` texts, in one call or in lists of `list_size`."""
        texts = self._texts[:count]
        if not texts:
            raise RuntimeError("there are no texts yet")
        started = time.perf_counter()
        for begin in range(0, len(texts), list_size or len(texts)):
            self._run(texts[begin : begin + (list_size or len(texts))])
        return time.perf_counter() - started

    def latency(self, text: str, times: int, most_seconds: float = 10.0) -> list[float]:
        """Seconds of one request, again and again; three warm it up."""
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
        """The most memory that this process has had, in bytes: of its GPU if it computed on one, else main memory."""
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available() and torch.cuda.max_memory_allocated():
            return int(torch.cuda.max_memory_allocated())
        return peak_memory()

    def _run(self, texts: Sequence[str]) -> np.ndarray:
        if self._vectors is None:
            raise RuntimeError("nothing is loaded yet")
        return np.asarray(self._vectors(texts))


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all do not exceed."""
    return float(np.quantile(np.asarray(values), share))


def centred_cosines(vectors: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Cosines of rows after the reference's mean row is taken from both: [texts].

    Vectors of one model share a large common part, which makes any two of them look alike; without it a contender that
    mixes its inputs up cannot pass. vectors, reference: float [texts, size].
    """
    mean = reference.mean(axis=0, keepdims=True)
    one, other = vectors - mean, reference - mean
    lengths = np.linalg.norm(one, axis=1), np.linalg.norm(other, axis=1)
    nothing = COMMON * np.linalg.norm(mean)
    are_common = (lengths[0] <= nothing) & (lengths[1] <= nothing)  # rows that are the common part, as of equal texts
    cosines = (one * other).sum(axis=1) / np.maximum(lengths[0] * lengths[1], 1e-30)
    return np.where(are_common, 1.0, cosines)
