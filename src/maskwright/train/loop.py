"""The training loop. It is independent of the model: a job supplies batches and losses.

All random numbers (data order, masks, dropout) are functions of the seed and the step, so a run resumed from a
checkpoint gives the same results as an uninterrupted one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ..core.errors import RunError, TrainingError
from ..core.progress import note, track
from ..core.randomness import derive_seed
from ..data.batch import Batch
from ..models.adapters import load_trained_state
from ..models.device import DTYPES, to_cpu_later
from ..nn.layers import preserve_generators, seed_generators
from ..nn.native import training
from ..objectives.outcome import LossSums, mean_scores
from .callbacks import CheckpointFacts, EvaluationFacts, StepFacts, read_only
from .checkpoint import list_checkpoints, load_latest, restore_moments, save_checkpoint
from .distributed import Group, ProcessGroup, check_same
from .optimizer import ADAM, RowGradients, adamw, set_learning_rate, skip_unless_finite
from .run import RunFolder
from .schedules import Schedule, learning_rate, warmup_steps
from .settings import ReducePrecision
from .steps import Clock, LocalSteps, StopRequest, Totals, batch_flops, check_dealt, steps_of, stop_on_signals

MOST_UNREAD = 5_000  # numbers of a window


@dataclass(frozen=True)
class LoopSettings:
    """Settings of the loop. warmup: see `warmup_steps`; `*_every`: in steps; keep: number of checkpoints to keep;
    adam: beta2 and epsilon; shard: each of several processes stores a part of the weights and of the optimizer state;
    reduce_precision: in which gradients of several processes are added up, None for that of the weights.
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
    shard: bool = False
    reduce_precision: ReducePrecision | None = None

    def reads(self, step: int) -> bool:
        """Whether results are needed after `step` steps: to log, evaluate or save."""
        every = self.log_every, self.evaluate_every, self.checkpoint_every
        return step == self.steps or any(step % one == 0 for one in every)

    @classmethod
    def of(cls, config: Any, **own: Any) -> LoopSettings:
        """Those of a recipe that have the same names there, and others."""
        names = [one.name for one in fields(cls) if one.name not in own and hasattr(config, one.name)]
        return cls(**{name: getattr(config, name) for name in names}, **own)


class Job(Protocol):
    """A model and its training data. `micro_batches` advances by one step; `state` and `restore` serve checkpoints.

    A job that several processes can train also has `deal` (see `steps`), `numbered`: the micro-batches of this process,
    with their numbers in the step, and `fingerprint`: a digest of the training data.
    """

    @property
    def model(self) -> nn.Module: ...

    def micro_batches(self, step: int) -> list[Batch]: ...

    def counts(self, batch: Batch) -> dict[str, int]: ...

    def outcome(self, batch: Batch) -> LossSums: ...

    def evaluate(self, step: int) -> dict[str, float]:
        """Scores on held-out data after `step` steps, by name; may be empty."""
        ...

    def should_stop(self) -> bool:
        """Whether to stop before the last step (early stopping)."""
        ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...


class Window:
    """Sums since the last logged record. Checkpoints store them, so the log continues exactly.

    What a device computed is read when the sums are: the host does not wait for a GPU in every step.
    """

    def __init__(self, sums: dict[str, float] | None = None) -> None:
        self._sums: defaultdict[str, float] = defaultdict(float, sums or {})
        self._unread: list[tuple[str, Tensor]] = []  # scalars to add

    def add(self, outcome: LossSums, tokens: int = 0) -> None:
        self._sums["tokens"] += tokens
        if len(self._unread) > MOST_UNREAD:
            _ = self.sums
        for part, count in outcome.counts.items():
            self._sums[f"{part}/count"] += count
            found = {"loss": outcome.losses[part].detach()}
            if part in outcome.correct:
                self._sums[f"{part}/scored"] += count
                found["correct"] = outcome.correct[part]
            if part in outcome.scores:
                found |= outcome.scores[part].sums()
            self._unread += [(f"{part}/{name}", value) for name, value in found.items()]
            if part in outcome.weights:
                self._sums[f"{part}/weight"] = outcome.weights[part]

    @property
    def sums(self) -> dict[str, float]:
        """Waits for what is not read yet."""
        alike: defaultdict[Any, list[tuple[str, Tensor]]] = defaultdict(list)
        for name, value in self._unread:
            alike[value.dtype, value.device].append((name, value))
        self._unread.clear()
        for group in alike.values():
            for (name, _), number in zip(group, torch.stack([value for _, value in group]).tolist(), strict=True):
                self._sums[name] += number
        return self._sums

    @classmethod
    def merged(cls, parts: Sequence[Mapping[str, float]]) -> Window:
        merged = cls(dict(parts[0]))
        for part in parts[1:]:
            for name, value in part.items():
                merged._sums[name] = value if name.endswith("/weight") else merged._sums[name] + value
        return merged

    def means(self) -> dict[str, float]:
        """`loss` (the weighted sum over parts), `<part>_loss`, and if known `<part>_accuracy` and the other
        `mean_scores`.
        """
        means: dict[str, float] = {"loss": 0.0}
        sums = self.sums
        for part in sorted({key.partition("/")[0] for key in sums if "/" in key}):
            count = max(sums[f"{part}/count"], 1)
            means[f"{part}_loss"] = sums[f"{part}/loss"] / count
            means["loss"] += sums.get(f"{part}/weight", 1.0) * means[f"{part}_loss"]
            own = {key.partition("/")[2]: value for key, value in sums.items() if key.startswith(f"{part}/")}
            if "correct" in own:
                means |= {f"{part}_{name}": value for name, value in mean_scores(own).items()}
        return means


def train(job: Job, settings: LoopSettings, run: RunFolder | None = None, name: str = "training") -> int:
    """Train to the last step, from the newest checkpoint of `run` if it has one. Returns the number of steps done.

    Without a `run` nothing is written. Raises Interrupted after a signal (a checkpoint is saved first), and
    TrainingError when the gradient is not finite (the last checkpoint is unchanged).
    """
    group = Group() if run is None else run.group
    _check_processes(group, job, settings)
    data: str = getattr(job, "fingerprint", str)() if run is not None else ""
    step, window, moments, in_cpp = _resume(job, run, data)
    group.broadcast([*job.model.parameters(), *job.model.buffers()])
    job.model.train()
    reduced = None if settings.reduce_precision is None else DTYPES[settings.reduce_precision]
    sharded = _sharded(job, group, settings, reduced)
    optimizer = adamw(
        job.model if sharded is None else sharded.sharded, settings.lr, settings.weight_decay, settings.adam
    )
    if sharded is None:
        restore_moments(job.model, optimizer, group.shared(moments))
    else:
        sharded.restore(optimizer, group.shared(moments))
    with (
        preserve_generators(next(job.model.parameters()).device),
        _deterministic(job.model),
        training.allowed(in_cpp),
        # without a folder to save in, Ctrl-C raises an ordinary KeyboardInterrupt
        nullcontext(StopRequest()) if run is None else stop_on_signals(group.world > 1) as stop,
        steps_of(job, group, stop, reduced, sharded) as steps,
        track(name, settings.steps, "steps", step) as progress,
    ):
        clock, update = Clock(), None
        while step < settings.steps and not steps.is_done(job):
            before, update = update, _one_step(job, optimizer, steps, settings, step, window)
            step += 1
            norm = _norm_of(before, update, settings.reads(step) or bool(run and run.callbacks))
            clock.add(update.tokens)
            record: dict[str, Any] = {}
            if step % settings.log_every == 0 or step == settings.steps:
                summed = Window.merged(group.gather(dict(window.sums)))
                record |= {"step": step, **summed.means(), "lr": _rate(settings, step - 1), "grad_norm": norm}
                record |= {"tokens": int(summed.sums["tokens"]), **(speed := clock.read())}
                record |= steps.times.read(speed["seconds"])
                window = Window()
                progress.update(step, _describe(record))
                if run is not None:
                    run.log(record)
            if run is not None and run.callbacks:
                facts = (_rate(settings, step - 1), norm, update.tokens, read_only(record))
                run.callbacks.call("on_step", job.model, StepFacts(run.path, step, settings.steps, *facts))
                clock.skip()
            if step % settings.evaluate_every == 0 or step == settings.steps:
                with steps.whole():
                    steps.after_evaluation(partial(_evaluate, job, step, settings.steps, run))
                clock.skip()
            if run is not None and (step % settings.checkpoint_every == 0 or step == settings.steps or stop.is_due):
                update.check()
                _save(job, optimizer, run, steps, settings, step, window, data)
                clock.skip()
            _stop_if_requested(stop, run, step, settings.steps)
        if update is not None:
            update.check()
        steps.end()
        if summary := steps.times.summary():
            note(summary)
    return step


def _sharded(job: Job, group: Group, settings: LoopSettings, reduced: torch.dtype | None) -> Any:
    """The network in parts, if several processes each store one."""
    if not settings.shard or not isinstance(group, ProcessGroup):
        return None
    from .sharding import ShardedNetwork  # imports parts of torch that few trainings need

    return ShardedNetwork(job, group, reduced)


def _check_processes(group: Group, job: Any, settings: LoopSettings) -> None:
    """Raise ConfigError when the processes of a run have other settings, data or networks."""
    if group.world > 1:
        check_dealt(job)
        facts = {"training data": job.fingerprint(), "weights": [list(one.shape) for one in job.model.parameters()]}
        check_same(group, "settings of the training", {**asdict(settings), **facts})


@dataclass
class Update:
    """The update of a step, which may not be computed yet.

    norm: of the gradient, waits for it; tokens: of the step; explain: the error if the norm is not finite.
    """

    norm: Callable[[], Tensor]
    tokens: int
    explain: Callable[[], TrainingError]

    def check(self) -> float:
        """Waits for the norm of the gradient. Raises TrainingError if it is not finite; it changed no weight then."""
        norm = float(self.norm())
        if not math.isfinite(norm):
            raise self.explain()
        return norm


def is_queued(norm: Tensor) -> bool:
    """Whether the host can continue before a device has computed this."""
    return norm.is_cuda


def _norm_of(before: Update | None, update: Update, is_wanted: bool) -> float:
    """The norm of a step if it is wanted, else NaN. Checks the step before it.

    Only now: while the host waits for that step, a GPU has this one to compute.
    """
    if before is not None:
        before.check()
    return update.check() if is_wanted else math.nan


def _one_step(
    job: Job, optimizer: torch.optim.Optimizer, steps: LocalSteps, settings: LoopSettings, step: int, window: Window
) -> Update:
    """Forward, backward and update over the micro-batches of one step; a GPU may still be computing them."""
    batches = steps.batches(job, step)
    counts: defaultdict[str, int] = defaultdict(int)
    counted = [batch for number, batch in batches if number >= 0]
    for batch in counted:
        labels = job.counts(batch)
        steps.times.flops += batch_flops(job.model, batch, labels)
        for part, count in labels.items():
            counts[part] += count
    totals = steps.add_up(counts, sum(batch.num_all_tokens for batch in counted))
    outcomes = _backward(job, batches, totals, settings.seed, step, steps)
    _, tokens = totals()
    steps.finish()
    trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    norm = steps.clip(trained, settings.clip_norm)

    def repeat() -> float:
        optimizer.zero_grad(set_to_none=True)
        _backward(job, batches, totals, settings.seed, step, LocalSteps(RowGradients([])))
        return float(nn.utils.get_total_norm([one.grad for one in trained if one.grad is not None]))

    update = Update(to_cpu_later(norm), tokens, lambda: steps.explain(step, repeat))
    if not (steps.is_alone and is_queued(norm) and skip_unless_finite(optimizer, norm)):
        update.check()
    set_learning_rate(optimizer, _rate(settings, step))
    optimizer.step()
    for outcome, (number, batch) in zip(outcomes, batches, strict=True):
        if number >= 0:
            window.add(outcome, batch.num_all_tokens)
    steps.clear()
    optimizer.zero_grad(set_to_none=True)
    return update


def _backward(
    job: Job,
    batches: Sequence[tuple[int, Batch]],
    totals: Callable[[], Totals],
    seed: int,
    step: int,
    steps: LocalSteps,
) -> list[LossSums]:
    """Forward and backward passes of a step. totals: waits for the number of labels of each part in the whole step."""
    outcomes: list[LossSums] = []
    device = next(job.model.parameters()).device
    for place, (number, batch) in enumerate(batches, 1):
        # Dropout uses torch's default generator, so it is seeded here; `train` restores it.
        seed_generators(derive_seed(seed, "dropout", step, number), device)
        with steps.passes(is_last=place == len(batches)):
            outcome = steps.outcome(job, batch)
            labels, _ = totals()
            # Each part is a mean over the whole step, even if its labels are unevenly distributed over its batches.
            losses = outcome.losses.items()
            parts = [outcome.weights.get(part, 1.0) * loss / max(labels[part], 1) for part, loss in losses]
            steps.backward(torch.stack(parts).sum(), number)
        outcomes.append(outcome)
    return outcomes


def _resume(job: Job, run: RunFolder | None, data: str) -> tuple[int, Window, Mapping[str, Tensor], bool]:
    """Restore the newest checkpoint, which the first process reads.

    Returns its step, sums and optimizer state, and whether nn/native may be used: its dropout drops other elements.

    data: digest of the training data; RunError if the checkpoint was made with others, as by another version that reads
    or splits the same files differently.
    """
    if run is None:
        return 0, Window(), {}, True
    group = run.group
    checkpoint = load_latest(run.checkpoints) if group.is_main else None
    if checkpoint is not None:
        load_trained_state(job.model, checkpoint.weights)
    found = group.from_main(lambda: checkpoint and {"step": checkpoint.step, **checkpoint.state})
    if found is None:
        run.rewind(0)
        return 0, Window(), {}, True
    if found.get("data", data) != data:
        raise RunError(
            f"The checkpoints in {run.checkpoints} were made with other training data ({found['data']}; now {data}), "
            "although no file has changed: this version reads or splits them differently. Resume with the version that "
            "began the run, or use --restart to discard it and restart from scratch."
        )
    job.restore(found["job"])
    run.rewind(found["step"])
    note(f"Resuming from step {found['step']:,}.")
    in_cpp = bool(found.get("cpp"))
    if in_cpp and (reason := training.missing()) is not None:
        note(f"This run began with dropout in C++, which draws other elements than torch; now {reason}.")
    windows = found.get("windows", [found["window"]])
    if len(windows) != group.world:
        windows = [found["window"], *[{}] * group.world]
    return found["step"], Window(windows[group.rank]), {} if checkpoint is None else checkpoint.optimizer, in_cpp


def _save(
    job: Job,
    optimizer: torch.optim.Optimizer,
    run: RunFolder,
    steps: LocalSteps,
    settings: LoopSettings,
    step: int,
    window: Window,
    data: str,
) -> None:
    windows = run.group.gather(dict(window.sums))
    state = {"job": job.state(), "window": dict(Window.merged(windows).sums), "threads": torch.get_num_threads()}
    state |= {"data": data, "cpp": training.is_used()}
    if len(windows) > 1:
        state["windows"] = windows  # the sums of each process, for an exact log

    def write() -> None:
        run.checkpoints.mkdir(exist_ok=True)
        path = save_checkpoint(run.checkpoints, step, job.model, moments(), state, settings.keep)
        run.callbacks.call("on_checkpoint", job.model, CheckpointFacts(run.path, step, settings.steps, path))

    moments = steps.moments(job, optimizer)
    with steps.whole():
        run.group.from_main(write)


def _evaluate(job: Job, step: int, steps: int, run: RunFolder | None) -> bool:
    """Evaluate and log the scores. Returns whether training ends early."""
    job.model.eval()
    scores = job.evaluate(step)
    job.model.train()
    if scores and run is not None:
        run.log({"step": step, **{f"eval_{name}": value for name, value in scores.items()}})
    if run is not None:
        run.callbacks.call("on_evaluate", job.model, EvaluationFacts(run.path, step, steps, read_only(scores)))
    return job.should_stop()


def _stop_if_requested(stop: StopRequest, run: RunFolder | None, step: int, steps: int) -> None:
    if stop.is_due and step < steps:
        if run is not None and list_checkpoints(run.checkpoints):
            note(f"Saved at step {step:,} of {steps:,}. Rerun the same command to resume.")
        raise Interrupted


def _rate(settings: LoopSettings, step: int) -> float:
    warmup = warmup_steps(settings.warmup, settings.steps)
    return learning_rate(step, steps=settings.steps, peak=settings.lr, warmup=warmup, schedule=settings.schedule)


def _describe(record: dict[str, float]) -> str:
    shown = {key: value for key, value in record.items() if key == "loss" or key.endswith("_accuracy")}
    words = [f"{key.replace('_accuracy', '')} {value:.3f}" for key, value in shown.items()]
    return ", ".join([*words, f"{record['tokens_per_second']:,.0f} tokens/s"])


@contextmanager
def _deterministic(model: nn.Module) -> Iterator[None]:
    """Use deterministic kernels while a model trains on a CPU; restores the previous setting."""
    enabled = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    settings: Any = torch.utils.deterministic  # which has no annotations
    fills = settings.fill_uninitialized_memory
    if next(model.parameters()).device.type == "cpu":
        torch.use_deterministic_algorithms(True)
        # Filling uninitialized memory costs time and does not affect the results here.
        settings.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(enabled, warn_only=warns)
        settings.fill_uninitialized_memory = fills


# -- Ctrl-C and SIGTERM during training: finish the step, save, exit; a second signal exits at once --------------------


class Interrupted(KeyboardInterrupt):
    """Training stopped on request after saving a checkpoint. The command line exits with 130."""
