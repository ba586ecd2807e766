"""What both contenders measure with: training steps between marks, and calls that are repeated for some time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
import torch

from maskwright.models.config import ModelConfig
from maskwright.speed.backend import percentile
from maskwright.speed.workload import forward_flops, training_flops, wait

WARM_UP = 6  # steps that do not count; compiling falls into them
FEWEST = 3
FEWEST_CALLS = 5
COMPARED = 16  # texts whose vectors both contenders show


class Steps:
    """The times of training steps, and what each was given. seconds: of the counted steps together, about."""

    def __init__(self, seconds: float, device: torch.device) -> None:
        self.seconds, self.device = seconds, device
        self.marks: list[float] = []
        self.given: list[tuple[list[int], int, int]] = []  # lengths, scored positions, classified sequences

    def begin(self, lengths: Sequence[int], num_scored: int = 0, num_classified: int = 0) -> None:
        """A step begins with this."""
        self.marks.append(time.perf_counter())
        self.given.append((list(lengths), num_scored, num_classified))

    @property
    def are_enough(self) -> bool:
        """Whether the warm-up is over, and its time."""
        counted = len(self.marks) - WARM_UP
        return counted >= FEWEST and time.perf_counter() - self.marks[WARM_UP] >= self.seconds

    def found(self, config: ModelConfig, **facts: Any) -> dict[str, Any]:
        """Rates of the steps after the warm-up: tokens and needed operations a second."""
        wait(self.device)
        marks = [*self.marks[WARM_UP:], time.perf_counter()]
        given = self.given[WARM_UP:]
        seconds = marks[-1] - marks[0]
        tokens = sum(sum(lengths) for lengths, _, _ in given)
        work = sum(training_flops(config, *one) for one in given)
        return {
            "tokens_per_second": tokens / seconds,
            "rows_per_second": sum(len(lengths) for lengths, _, _ in given) / seconds,
            "flops_per_second": work / seconds,
            "flops_per_token": work / tokens,
            "step_seconds": median(later - earlier for earlier, later in zip(marks, marks[1:], strict=False)),
            "steps": len(given),
            "tokens_of_a_step": tokens / len(given),
            "warm_up_seconds": self.marks[WARM_UP] - self.marks[0],
            "memory": peak_memory(self.device),
            **facts,
        }


def repeated(call: Callable[[], Any], seconds: float, device: torch.device) -> list[float]:
    """Seconds of a call, again and again for about `seconds`; three calls warm it up."""
    for _ in range(3):
        call()
    wait(device)
    found: list[float] = []
    begin = time.perf_counter()
    while len(found) < FEWEST_CALLS or time.perf_counter() - begin < seconds:
        started = time.perf_counter()
        call()
        wait(device)
        found.append(time.perf_counter() - started)
    return found


def delays(call: Callable[[], Any], seconds: float, device: torch.device) -> dict[str, float]:
    """p50 and p95 of a call, in seconds."""
    found = repeated(call, seconds, device)
    return {"p50": percentile(found, 0.5), "p95": percentile(found, 0.95), "calls": len(found)}


def embedding_rates(
    vectors: Callable[[list[str]], np.ndarray],
    texts: list[str],
    lengths: Sequence[int],
    config: ModelConfig,
    requests: Sequence[int],
    seconds: float,
    device: torch.device,
) -> dict[str, Any]:
    """Rates of `vectors`, texts -> float [texts, hidden]: all texts in one call, and requests of a few of them.

    lengths: tokens of the texts; requests: how many texts each has.
    """
    first = vectors(texts[:COMPARED]).astype(np.float64).tolist()
    bulk = min(repeated(lambda: vectors(texts), seconds, device))
    small = {str(count): delays(lambda: vectors(texts[:count]), seconds / 4, device) for count in requests}  # noqa: B023
    return {
        "vectors": first,
        "texts": len(texts),
        "tokens_per_second": sum(lengths) / bulk,
        "rows_per_second": len(texts) / bulk,
        "flops_per_second": forward_flops(config, lengths) / bulk,
        "flops_per_token": forward_flops(config, lengths) / sum(lengths),
        "small": small,
    }


def peak_memory(device: torch.device) -> int | None:
    """Bytes of the GPU at the fullest moment since `fresh`; None elsewhere."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def fresh(device: torch.device) -> None:
    """Give back what the last measurement held."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
