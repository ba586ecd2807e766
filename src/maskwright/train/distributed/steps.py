"""What a training step does around its backward passes: in one process, and together with others.

Together, the micro-batches of a step are dealt to the processes, the numbers of labels are added up before the backward
pass, so that each loss is that of the whole step, and the gradients are added up.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import nn

from ...core.errors import InputError, TrainingError
from ...data.batch import Batch
from ...data.deal import Deal, everything
from ..optimizer import RowGradients
from ..signals import StopRequest
from .group import Group, ProcessGroup
from .reduction import GradientSum

ADVICE = "training stopped; the last checkpoint is unchanged. Use a smaller --lr or more --warmup, then --restart."


class Dealt(Protocol):
    """The methods of a job whose micro-batches can be dealt."""

    deal: Deal

    def numbered(self, step: int) -> list[tuple[int, Batch]]:
        """The micro-batches of this process, with their numbers in the step."""

    def fingerprint(self) -> str:
        """A digest of the training data."""


class LocalSteps:
    """The steps of a single process. rows: the sparse gradients of its tables."""

    def __init__(self, rows: RowGradients) -> None:
        self.rows = rows

    def batches(self, job: Any, step: int) -> list[tuple[int, Batch]]:
        """The micro-batches of a step with their numbers."""
        return list(enumerate(job.micro_batches(step)))

    def add_up(self, counts: Mapping[str, int], tokens: int) -> tuple[Mapping[str, int], int]:
        """The labels of each part, and the tokens, of the whole step. counts, tokens: of this process."""
        return counts, tokens

    def before_last(self) -> None:
        """Before the last backward pass of a step."""

    def finish(self) -> None:
        """After the last backward pass of a step: complete the gradients."""
        self.rows.spread()

    def clear(self) -> None:
        """After the update."""
        self.rows.clear()

    def explain(self, step: int, repeat: Callable[[], float]) -> TrainingError:
        """The error of a step (from 0) whose gradient is not finite.

        repeat: computes the norm of this process's own gradient again.
        """
        return TrainingError(f"The gradient is not finite at step {step + 1}: {ADVICE}")

    def is_done(self, job: Any) -> bool:
        """Whether training ends early."""
        return bool(job.should_stop())

    def after_evaluation(self, evaluate: Callable[[], bool]) -> None:
        """Evaluate in the first process. evaluate: returns whether training ends early."""
        evaluate()

    def read_times(self) -> dict[str, float]:
        """What the log says about the time of the steps since the last call."""
        return {}


class SharedSteps(LocalSteps):
    """The steps of one of several processes."""

    def __init__(self, group: ProcessGroup, gradients: GradientSum, stop: StopRequest) -> None:
        super().__init__(RowGradients([]))
        self.group, self.gradients, self.stop = group, gradients, stop
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._steps = 0
        self._last = time.monotonic()
        self._is_done = False

    def batches(self, job: Any, step: int) -> list[tuple[int, Batch]]:
        """The micro-batches of this process."""
        self.group.watch.step = step + 1
        self._last = time.monotonic()
        found: list[tuple[int, Batch]] = job.numbered(step)
        self._lap("data")
        return found

    def add_up(self, counts: Mapping[str, int], tokens: int) -> tuple[Mapping[str, int], int]:
        """The labels of each part, and the tokens, of the whole step."""
        found = self.group.gather([dict(counts), tokens, self.stop.requested])
        totals: Counter[str] = Counter()
        for own, _, _ in found:
            totals.update(own)
        self.stop.is_agreed = any(wants for _, _, wants in found)
        self._lap("communication")
        return totals, sum(own for _, own, _ in found)

    def before_last(self) -> None:
        """Before the last backward pass of a step: send gradients as they are completed."""
        self.gradients.expect_last()

    def finish(self) -> None:
        """Add up the gradients of all processes."""
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.current_stream().synchronize()  # so that computing is not counted as waiting
        self.group.watch.longest_step = max(self.group.watch.longest_step, self._lap("compute"))
        self.gradients.finish()
        self._lap("communication")

    def clear(self) -> None:
        """After the update."""
        self._lap("compute")
        self._steps += 1

    def explain(self, step: int, repeat: Callable[[], float]) -> TrainingError:
        """The error in the process whose own gradient is not finite; the other processes end with it."""
        is_fine = self.group.gather(bool(torch.tensor(repeat()).isfinite()))
        if self.group.rank not in [rank for rank, fine in enumerate(is_fine) if not fine][:1] and not all(is_fine):
            self.group.await_failure()
        return super().explain(step, repeat)

    def is_done(self, job: Any) -> bool:
        """Whether training ends early, as the first process decided after its last evaluation."""
        return self._is_done

    def after_evaluation(self, evaluate: Callable[[], bool]) -> None:
        """Evaluate in the first process, and learn its decision."""
        self._is_done = bool(self.group.from_main(evaluate))

    def read_times(self) -> dict[str, float]:
        """Seconds per step, means over the processes; and the process that computed longest, if it is not alone."""
        kinds = ("data", "compute", "communication")
        found = self.group.gather([self._seconds[kind] for kind in kinds])
        steps, self._steps = max(self._steps, 1), 0
        self._seconds.clear()
        means = [sum(column) / len(found) / steps for column in zip(*found, strict=True)]
        times = {f"{kind}_seconds": round(mean, 6) for kind, mean in zip(kinds, means, strict=True)}
        return {**times, "slowest_process": max(range(len(found)), key=lambda rank: found[rank][1])}

    def _lap(self, kind: str) -> float:
        now = time.monotonic()
        passed, self._last = now - self._last, now
        self._seconds[kind] += passed
        return passed


@contextmanager
def steps_of(job: Any, group: Group, stop: StopRequest) -> Iterator[LocalSteps]:
    """The steps of `job` in this process. Raises InputError for a job that only one process can train."""
    model: nn.Module = job.model
    if not isinstance(group, ProcessGroup):
        with RowGradients.of(model) as rows:
            yield LocalSteps(rows)
        return
    job.deal = group.deal
    try:
        with GradientSum.of(model, group.watch) as gradients:
            steps = SharedSteps(group, gradients, stop)
            steps.after_evaluation(job.should_stop)  # a resumed run may have ended early
            yield steps
    finally:
        job.deal = everything


def check_dealt(job: Any) -> None:
    """Raise InputError for a job whose batches depend on each other."""
    if not hasattr(job, "numbered") or getattr(job, "carries_state", False):
        raise InputError(
            "This training carries its state from batch to batch, which only one process can do: run it without "
            "torchrun, or add --reset-state."
        )
