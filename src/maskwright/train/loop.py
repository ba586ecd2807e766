"""The training loop, top to bottom. It knows nothing of the model: a job gives it batches and losses.

Every draw is named by the step (data, masks, dropout), so a run that was cut off anywhere continues from its last
checkpoint with the same numbers as one that was not.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from ..core.errors import TrainingError
from ..core.progress import note, track
from ..core.randomness import derive_seed
from ..data.batch import Batch
from ..objectives.outcome import Outcome
from .checkpoint import list_checkpoints, load_latest, save_checkpoint
from .interrupt import Interrupted, StopRequest, stop_on_signals
from .optimizer import ADAM, Schedule, adamw, learning_rate, set_learning_rate, warmup_steps
from .row_gradients import RowGradients
from .run import RunFolder


@dataclass(frozen=True)
class LoopSettings:
    """What the loop needs to know. warmup: see `warmup_steps`; the `*_every` are steps; keep: checkpoints that stay;
    adam: beta2 and epsilon.
    """

    steps: int
    lr: float
    warmup: float
    schedule: Schedule
    weight_decay: float
    clip_norm: float
    seed: int
    log_every: int
    checkpoint_every: int
    evaluate_every: int
    keep: int = 2
    adam: tuple[float, float] = ADAM


class Job(Protocol):
    """What is trained. `micro_batches` moves the job on by one step; `state` and `restore` say where it is."""

    @property
    def model(self) -> nn.Module: ...

    def micro_batches(self, step: int) -> list[Batch]: ...

    def counts(self, batch: Batch) -> dict[str, int]: ...

    def outcome(self, batch: Batch) -> Outcome: ...

    def evaluate(self, step: int) -> dict[str, float]:
        """Scores on held-out data after `step` steps, by name; may be empty."""
        ...

    def should_stop(self) -> bool:
        """Whether to end before the last step (early stopping)."""
        ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...


class Window:
    """Sums since the last logged line. They travel in checkpoints, so the log continues exactly."""

    def __init__(self, sums: dict[str, float] | None = None) -> None:
        self.sums: defaultdict[str, float] = defaultdict(float, sums or {})

    def add(self, outcome: Outcome, tokens: int = 0) -> None:
        """Add the sums of a batch, and its tokens."""
        self.sums["tokens"] += tokens
        for part, count in outcome.counts.items():
            self.sums[f"{part}/count"] += count
            self.sums[f"{part}/loss"] += float(outcome.losses[part].detach())
            for name, values in (("correct", outcome.correct), ("baseline", outcome.baseline)):
                if part in values:
                    self.sums[f"{part}/{name}"] += float(values[part])
            if part in outcome.weights:
                self.sums[f"{part}/weight"] = outcome.weights[part]

    def means(self) -> dict[str, float]:
        """`loss` (the weighted sum over parts), `<part>_loss`, `<part>_accuracy` and `<part>_baseline`."""
        means: dict[str, float] = {"loss": 0.0}
        for part in sorted({key.partition("/")[0] for key in self.sums if "/" in key}):
            count = max(self.sums[f"{part}/count"], 1)
            means[f"{part}_loss"] = self.sums[f"{part}/loss"] / count
            means["loss"] += self.sums.get(f"{part}/weight", 1.0) * means[f"{part}_loss"]
            for name, sums in (("accuracy", "correct"), ("baseline", "baseline")):
                if f"{part}/{sums}" in self.sums:
                    means[f"{part}_{name}"] = self.sums[f"{part}/{sums}"] / count
        return means


def train(job: Job, settings: LoopSettings, run: RunFolder | None = None, name: str = "training") -> int:
    """Train to the end, from the newest checkpoint of `run` if it has one. Returns the number of steps done.

    Without a `run` nothing is written. Raises Interrupted after a signal (everything is saved then), and TrainingError
    when the loss or the gradient is not finite (the last checkpoint stays as it was).
    """
    optimizer = adamw(job.model, settings.lr, settings.weight_decay, settings.adam)
    step, window = _resume(job, optimizer, run)
    job.model.train()
    with (
        _deterministic(job.model),
        RowGradients.of(job.model) as rows,
        _stop_request(run) as stop,
        track(name, settings.steps, "steps", step) as progress,
    ):
        clock = _Clock()
        while step < settings.steps and not job.should_stop():
            norm, tokens = _one_step(job, optimizer, rows, settings, step, window)
            clock.add(tokens)
            step += 1
            if step % settings.log_every == 0 or step == settings.steps:
                record = {"step": step, **window.means(), "lr": _rate(settings, step - 1), "grad_norm": norm}
                record |= {"tokens": int(window.sums["tokens"]), **clock.read()}
                window = Window()
                progress.update(step, _describe(record))
                if run is not None:
                    run.log(record)
            if step % settings.evaluate_every == 0 or step == settings.steps:
                _evaluate(job, step, run)
                clock.skip()
            if run is not None and (step % settings.checkpoint_every == 0 or step == settings.steps or stop.asked):
                _save(job, optimizer, run, settings, step, window)
                clock.skip()
            _leave_if_asked(stop, run, step, settings.steps)
    return step


def _stop_request(run: RunFolder | None) -> AbstractContextManager[StopRequest]:
    """Signals are caught where there is a folder to save in; elsewhere Ctrl-C is an ordinary KeyboardInterrupt."""
    return stop_on_signals() if run is not None else nullcontext(StopRequest())


def _one_step(
    job: Job,
    optimizer: torch.optim.Optimizer,
    rows: RowGradients,
    settings: LoopSettings,
    step: int,
    window: Window,
) -> tuple[float, int]:
    """Forward, backward and update over the micro-batches of one step. Returns the gradient's norm and the tokens."""
    batches = job.micro_batches(step)
    totals: defaultdict[str, int] = defaultdict(int)
    for batch in batches:
        for part, count in job.counts(batch).items():
            totals[part] += count
    outcomes: list[Outcome] = []
    for number, batch in enumerate(batches):
        # Dropout draws from torch's own generator, which is why it is named anew here.
        torch.manual_seed(derive_seed(settings.seed, "dropout", step, number))
        outcome = job.outcome(batch)
        # Each part is a mean over the whole step, however unevenly its labels fall on the micro-batches.
        parts = [outcome.weights.get(part, 1.0) * loss / max(totals[part], 1) for part, loss in outcome.losses.items()]
        torch.stack(parts).sum().backward()
        outcomes.append(outcome)
    rows.spread()
    trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    norm = float(nn.utils.clip_grad_norm_(trained, settings.clip_norm))
    if not math.isfinite(norm):
        raise TrainingError(
            f"The gradient is not finite at step {step + 1}: training stopped, and the last checkpoint is as it was. "
            "Use a smaller --lr or more --warmup, then --restart."
        )
    set_learning_rate(optimizer, _rate(settings, step))
    optimizer.step()
    # A GPU is waited for once in a step, at the norm: what is read here is there already.
    for outcome, batch in zip(outcomes, batches, strict=True):
        window.add(outcome, batch.num_all_tokens)
    rows.clear()
    optimizer.zero_grad(set_to_none=True)
    return norm, sum(batch.num_all_tokens for batch in batches)


def _resume(job: Job, optimizer: torch.optim.Optimizer, run: RunFolder | None) -> tuple[int, Window]:
    checkpoint = load_latest(run.checkpoints) if run is not None else None
    if run is None or checkpoint is None:
        if run is not None:
            run.rewind(0)
        return 0, Window()
    checkpoint.restore(job.model, optimizer)
    job.restore(checkpoint.state["job"])
    run.rewind(checkpoint.step)
    note(f"Going on from step {checkpoint.step:,}.")
    return checkpoint.step, Window(checkpoint.state["window"])


def _save(
    job: Job,
    optimizer: torch.optim.Optimizer,
    run: RunFolder,
    settings: LoopSettings,
    step: int,
    window: Window,
) -> None:
    state = {"job": job.state(), "window": dict(window.sums), "threads": torch.get_num_threads()}
    run.checkpoints.mkdir(exist_ok=True)
    save_checkpoint(run.checkpoints, step, job.model, optimizer, state, settings.keep)


def _evaluate(job: Job, step: int, run: RunFolder | None) -> None:
    job.model.eval()
    scores = job.evaluate(step)
    job.model.train()
    if scores and run is not None:
        run.log({"step": step, **{f"eval_{name}": value for name, value in scores.items()}})


def _leave_if_asked(stop: StopRequest, run: RunFolder | None, step: int, steps: int) -> None:
    if stop.asked and step < steps:
        if run is not None and list_checkpoints(run.checkpoints):
            note(f"Saved at step {step:,} of {steps:,}. The same command goes on from there.")
        raise Interrupted


def _rate(settings: LoopSettings, step: int) -> float:
    return learning_rate(
        step,
        steps=settings.steps,
        peak=settings.lr,
        warmup=warmup_steps(settings.warmup, settings.steps),
        schedule=settings.schedule,
    )


def _describe(record: dict[str, float]) -> str:
    shown = {key: value for key, value in record.items() if key == "loss" or key.endswith("_accuracy")}
    words = [f"{key.replace('_accuracy', '')} {value:.3f}" for key, value in shown.items()]
    return ", ".join([*words, f"{record['tokens_per_second']:,.0f} tokens/s"])


class _Clock:
    """Tokens per second of training alone, without evaluation and saving."""

    def __init__(self) -> None:
        self.tokens, self.seconds, self.since = 0, 0.0, time.monotonic()

    def add(self, tokens: int) -> None:
        """Count a step's tokens and its time."""
        now = time.monotonic()
        self.tokens += tokens
        self.seconds += now - self.since
        self.since = now

    def skip(self) -> None:
        """Leave out the time since the last step: it went into something else."""
        self.since = time.monotonic()

    def read(self) -> dict[str, float]:
        """The rate since the last call, and its time."""
        rate = self.tokens / max(self.seconds, 1e-9)
        result = {"tokens_per_second": round(rate, 1), "seconds": round(self.seconds, 3)}
        self.tokens, self.seconds = 0, 0.0
        return result


@contextmanager
def _deterministic(model: nn.Module) -> Iterator[None]:
    """Ask torch for deterministic kernels while a CPU model trains; what was set before comes back."""
    enabled = torch.are_deterministic_algorithms_enabled()
    fills = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    if next(model.parameters()).device.type == "cpu":
        torch.use_deterministic_algorithms(True)
        # Filling new memory costs time and decides no result here.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(enabled)
        torch.utils.deterministic.fill_uninitialized_memory = fills  # type: ignore[attr-defined]
