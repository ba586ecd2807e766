"""Where the time of the steps goes, in each process: data, computing, communication; FLOPs and memory."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import torch

from ...core.memory import peak_memory
from ...core.util import plural
from .group import Group

KINDS = ("data", "compute", "communication")
STRAGGLES = 1.1  # times the mean computing time of the other processes


class StepTimes:
    """Measures the steps of this process, and compares the processes. peak: FLOP/s of one device, None if unknown."""

    def __init__(self, group: Group, peak: float | None = None) -> None:
        self.group, self.peak = group, peak
        self.flops = 0.0  # of the steps since the last call of `read`
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._steps = 0
        self._last = time.monotonic()
        self._totals = [[0.0] * len(KINDS) for _ in range(group.world)]
        self._memory: list[int] = []

    def start(self) -> None:
        """A step begins."""
        self._last = time.monotonic()

    def lap(self, kind: str) -> float:
        """The time since the last lap was of this kind. Returns it."""
        now = time.monotonic()
        passed, self._last = now - self._last, now
        self._seconds[kind] += passed
        return passed

    def waited(self, seconds: float) -> None:
        """So many seconds of the current lap were spent waiting for the other processes."""
        self._seconds["communication"] += seconds
        self._last += seconds

    def end(self) -> None:
        """A step ends."""
        self._steps += 1

    def read(self, seconds: float) -> dict[str, Any]:
        """What the log says about the steps since the last call, which took so many seconds.

        Means over the processes; with several, also which one computed longest.
        """
        own = [[self._seconds[kind] for kind in KINDS], self.flops, _peak_megabytes()]
        found = self.group.gather(own)
        steps = max(self._steps, 1)
        self._seconds.clear()
        self._steps, self.flops = 0, 0.0
        self._memory = [memory for _, _, memory in found]
        rate = sum(flops for _, flops, _ in found) / max(seconds, 1e-9)
        record: dict[str, Any] = {"memory_mb": self._memory}
        if rate:
            record["tflops_per_second"] = round(rate / 1e12, 6)
        if rate and self.peak is not None:
            record["mfu"] = round(rate / self.peak / self.group.world, 4)
        if self.group.world == 1:
            return record
        for total, (own_seconds, _, _) in zip(self._totals, found, strict=True):
            total[:] = [before + now for before, now in zip(total, own_seconds, strict=True)]
        means = [sum(column) / len(found) / steps for column in zip(*(seconds for seconds, _, _ in found), strict=True)]
        record |= {f"{kind}_seconds": round(mean, 6) for kind, mean in zip(KINDS, means, strict=True)}
        return {**record, "slowest_process": max(range(len(found)), key=lambda rank: found[rank][0][1])}

    def summary(self) -> str | None:
        """One line about all steps of several processes; None for a single one, or without a step."""
        whole = sum(map(sum, self._totals))
        if not whole:
            return None
        shares = [sum(column) / whole for column in zip(*self._totals, strict=True)]
        kinds = ", ".join(f"{kind} {share:.0%}" for kind, share in zip(KINDS, shares, strict=True))
        computed = [total[1] for total in self._totals]
        slowest = max(range(len(computed)), key=computed.__getitem__)
        others = (sum(computed) - computed[slowest]) / (len(computed) - 1)
        straggler = (
            f"process {slowest} computes {computed[slowest] / others - 1:.0%} longer than the others"
            if computed[slowest] > STRAGGLES * others
            else "no process computes longer than the others"
        )
        memory = f"{min(self._memory):,} to {max(self._memory):,} MB of memory each"
        return f"{plural(len(computed), 'process', 'processes')}: {kinds} of the time; {straggler}; {memory}."


def _peak_megabytes() -> int:
    """The peak memory of this process: on its GPU if it uses one."""
    on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
    return round((torch.cuda.max_memory_allocated() if on_gpu else peak_memory()) / 1e6)
