"""Multi-task learning: fine-tunes a shared encoder with one head per task, and saves a model for each task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
import torch
from torch import nn

from ...core.progress import note
from ...core.randomness import generator
from ...core.util import plural
from ...data.batch import Batch
from ...hub.folders import save_model
from ...models.device import resolve_device, resolve_precision
from ...models.model import Model
from ...models.transformer import Transformer
from ...objectives.outcome import LossSums
from ...tasks.base import Evaluation, Task
from ...tasks.examples import Examples
from ..against_baseline import Compared
from ..callbacks import Callback
from ..checkpoint import mean_weights
from ..run import RunFolder, RunResult, open_training
from .config import FinetuneConfig, MultiTaskConfig
from .finetune import FinetuneResult, FinetuningSetup
from .finetune import finetune as finetune_task
from .job import BestCheckpointJob, BestModelSaver, DiskBestModelSaver, cut, fingerprint_of
from .report import write_multi_task_report
from .seeds import MEAN, SeedResult, SeedRunner, best_weights, statistics


@dataclass(frozen=True)
class MultiTaskResult(RunResult):
    """Paths and dev metrics of a run.

    tasks: "main_metric" and "metrics" (means over seeds) of each task, by name; mean, deviation, seeds: of all metrics,
    as `NAME.METRIC`; average: metrics of the averaged weights, by task, or None; baselines: the score of each task
    compared with its trivial baseline, by name.
    """

    tasks: dict[str, dict[str, Any]]
    mean: dict[str, float]
    deviation: dict[str, float]
    seeds: list[dict[str, Any]]
    average: dict[str, dict[str, float]] | None = None
    baselines: dict[str, Compared] = field(default_factory=dict)

    @property
    def model(self) -> Path:
        """The folder that contains a model folder for each task."""
        return self.output / "models"

    @property
    def models(self) -> dict[str, Path]:
        return {name: self.model / name for name in self.tasks}


@overload
def finetune(config: FinetuneConfig, *, restart: bool = False, callbacks: Sequence[Callback] = ()) -> FinetuneResult:
    """One task."""


@overload
def finetune(config: MultiTaskConfig, *, restart: bool = False, callbacks: Sequence[Callback] = ()) -> MultiTaskResult:
    """Several tasks."""


def finetune(
    config: FinetuneConfig | MultiTaskConfig, *, restart: bool = False, callbacks: Sequence[Callback] = ()
) -> FinetuneResult | MultiTaskResult:
    """Fine-tunes for one task or several, or resumes the run in `config.output`, as the command does.

    Args:
        config: Settings of the run; a MultiTaskConfig for several tasks.
        restart: Discard the run folder and restart from scratch.
        callbacks: Objects that are called during training; see `Callback`.

    Returns:
        The paths and scores of the run; those of a finished run unchanged.

    Raises:
        RowErrors: If the data has invalid rows; all are listed.
        RunError: If the run folder is in use, or has a run with other settings.
        Interrupted: After a signal.
    """
    if isinstance(config, MultiTaskConfig):
        return finetune_tasks(config, restart=restart, callbacks=callbacks)
    return finetune_task(config, restart=restart, callbacks=callbacks)


def finetune_tasks(
    config: MultiTaskConfig, *, restart: bool = False, callbacks: Sequence[Callback] = ()
) -> MultiTaskResult:
    """Run `config`, or resume it; a finished run is returned unchanged. Raises the errors of `finetune`."""
    device = resolve_device(config.device)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True))
    # The names of the tasks, which are compared too, come from those of the files.
    own = {"multi_task": lambda: {f"{part.task}:{name}": part.train for name, part in config.parts().items()}}
    with open_training(config, device, own, restart=restart, callbacks=callbacks) as run:
        if finished := run.finished():
            return _result(run, finished, already_finished=True)
        return _result(run, MultiTaskSetup(config, device).run_all(run))


class MultiTaskSetup(SeedRunner):
    """Loads the data of all tasks and trains the seeds. setups: the setup of each task, by name."""

    config: MultiTaskConfig

    def __init__(self, config: MultiTaskConfig, device: torch.device) -> None:
        self.config, self.device = config, device
        self.setups = {name: FinetuningSetup(part, device) for name, part in config.parts().items()}
        for name, setup in self.setups.items():
            rows = f"{plural(setup.train.num_rows, 'training row')}, {plural(setup.dev.num_rows, 'dev row')}"
            note(f"{name}: {setup.task.name}, {rows}.")

    def job(self, seed: int, folder: RunFolder) -> MultiTaskJob:
        config, models, parts = self.config, [], []
        for name, setup in self.setups.items():
            model, train, dev = setup.start(seed)
            models.append(model)
            parts.append(Part(name, setup.task, train, dev))
        return MultiTaskJob(
            SharedEncoder(models),
            parts,
            DiskBestModelSaver(best_weights(folder.path)),
            batch_size=config.batch_size,
            seed=seed,
            device=self.device,
            accumulation=config.accumulation,
            patience=config.patience,
            freeze_encoder=config.freeze_encoder,
        )

    def conclude(self, run: RunFolder, seeds: Sequence[SeedResult]) -> dict[str, Any]:
        best = max(seeds, key=lambda seed: seed.metrics[MEAN])
        job = self.job(best.seed, RunFolder(best.folder, run.recipe))
        job.conclude()
        if self.config.average_seeds:
            job.model.load_state_dict(mean_weights([best_weights(seed.folder) for seed in seeds]))
        found: dict[str, Evaluation] = {}
        for (name, setup), model in zip(self.setups.items(), job.model.models, strict=True):
            found[name] = setup.task.evaluate(model, setup.dev)
            setup.task.tune_threshold(found[name].logits, setup.dev)
        means = statistics(seeds, best)
        result = {
            **means,
            "baselines": {
                name: setup.compared(means["mean"][f"{name}.{setup.task.main_metric}"]).to_json()
                for name, setup in self.setups.items()
            },
            "main_metrics": {name: setup.task.main_metric for name, setup in self.setups.items()},
            "average": {name: {"loss": one.loss, **one.metrics} for name, one in found.items()}
            if self.config.average_seeds
            else None,
        }
        for (name, setup), model in zip(self.setups.items(), job.model.models, strict=True):
            facts = {
                **setup.task.to_json(),
                "max_length": self.config.max_length,
                "training": {**run.recipe, "part": name, **result},
            }
            save_model(model, run.path / "models" / name, facts=facts, replace=True)
        data = {name: setup.run_data for name, setup in self.setups.items()}
        write_multi_task_report(run, data, job.steps_by_part, seeds, found, result)
        return result


def _result(run: RunFolder, result: dict[str, Any], already_finished: bool = False) -> MultiTaskResult:
    mean, tasks = result["mean"], {}
    for name, main in result["main_metrics"].items():
        own = {key.removeprefix(f"{name}."): value for key, value in mean.items() if key.startswith(f"{name}.")}
        tasks[name] = {"main_metric": main, "metrics": own}
    baselines = {name: Compared.from_json(one) for name, one in result.get("baselines", {}).items()}
    return MultiTaskResult.of(run, result, tasks=tasks, baselines=baselines, already_finished=already_finished)


# -- Multi-task learning as a job of the training loop: each step trains one task, its head and the shared encoder


class SharedEncoder(nn.Module):
    """Models that share one encoder.

    models: each with its own head; each remains a complete model that can predict and be saved. Those with a pooler
    share it.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        self.models = tuple(models)  # a tuple, so that torch does not register the encoder once per model
        first = next((model for model in models if model.has_pooler), models[0])
        self.encoder: Transformer = first.encoder
        self.heads = nn.ModuleList(model.head for model in models if model.head is not None)
        self.tops = nn.ModuleList(model.top for model in models if model.top is not None)
        for model in models:
            for name, part in first.encoder.named_children():
                if getattr(model.encoder, name) is not None:
                    setattr(model.encoder, name, part)

    def train(self, mode: bool = True) -> Self:
        for model in self.models:
            model.train(mode)
        return super().train(mode)


@dataclass(frozen=True)
class Part:
    """Data of one task. name: as in the log and the folders; dev: examples that choose the best epoch."""

    name: str
    task: Task
    train: Examples
    dev: Examples


class MultiTaskJob(BestCheckpointJob):
    """Supplies batches of all tasks in random order, `batch_size` rows of one task per step.

    The best step is the one with the highest mean of the tasks' main metrics.
    """

    model: SharedEncoder

    def __init__(
        self,
        model: SharedEncoder,
        parts: Sequence[Part],
        saver: BestModelSaver,
        *,
        batch_size: int,
        seed: int,
        device: torch.device,
        accumulation: int = 1,
        patience: int = 0,
        freeze_encoder: bool = False,
    ) -> None:
        super().__init__(model, saver, has_dev=True, patience=patience, freeze_encoder=freeze_encoder)
        self.parts = list(parts)
        self.batch_size, self.seed, self.device, self.accumulation = batch_size, seed, device, accumulation
        self.current = 0  # index of the current step's task
        self._plan: tuple[int, list[tuple[int, Any]]] | None = None

    @property
    def steps_by_part(self) -> list[int]:
        return [-(-len(part.train) // self.batch_size) for part in self.parts]

    @property
    def steps_per_epoch(self) -> int:
        return sum(self.steps_by_part)

    def micro_batches(self, step: int) -> list[Batch]:
        return [batch for _, batch in self.numbered(step)]

    def fingerprint(self) -> str:
        return "; ".join(fingerprint_of(part.train) for part in self.parts)

    def numbered(self, step: int) -> list[tuple[int, Batch]]:
        epoch, number = divmod(step, self.steps_per_epoch)
        if self._plan is None or self._plan[0] != epoch:
            self._plan = (epoch, self.plan(epoch))
        self.current, rows = self._plan[1][number]
        return cut(self.parts[self.current].train, rows, self.accumulation, self.device, self.deal)

    def plan(self, epoch: int) -> list[tuple[int, Any]]:
        """Task and rows of each step of an epoch. The row order of a task does not depend on the other tasks."""
        size = self.batch_size
        orders = [
            generator(self.seed, f"order of {part.name}", epoch).permutation(len(part.train)) for part in self.parts
        ]
        batches = [iter([order[at : at + size] for at in range(0, len(order), size)]) for order in orders]
        turns = np.repeat(np.arange(len(self.parts)), self.steps_by_part)
        drawn = generator(self.seed, "turns of the tasks", epoch).permutation(turns).tolist()
        return [(part, next(batches[part])) for part in drawn]

    def counts(self, batch: Batch) -> dict[str, int]:
        part = self.parts[self.current]
        return {part.name: part.task.counts(batch)[part.task.name]}

    def outcome(self, batch: Batch) -> LossSums:
        """Loss and correct predictions of a batch of the current task. A frozen encoder runs without dropout."""
        part, model = self.parts[self.current], self.model.models[self.current]
        if self.freeze_encoder:
            model.encoder.eval()
        found = part.task.outcome(model, batch)
        name = part.task.name  # two tasks of one type have different names here
        correct = {part.name: found.correct[name]} if name in found.correct else {}
        return LossSums({part.name: found.losses[name]}, {part.name: found.counts[name]}, correct)

    def scores(self) -> tuple[dict[str, float], list[float]]:
        """`NAME.loss` and `NAME.METRIC` of each task, and the mean loss; ranked by the mean of the main metrics."""
        found: dict[str, float] = {}
        mains, losses = [], []
        for part, model in zip(self.parts, self.model.models, strict=True):
            evaluation = part.task.evaluate(model, part.dev)
            own = {"loss": evaluation.loss, **evaluation.metrics}
            found |= {f"{part.name}.{name}": value for name, value in own.items()}
            mains.append(own[part.task.main_metric])
            losses.append(evaluation.loss)
        mean, loss = float(np.mean(mains)), float(np.mean(losses))
        return {"loss": loss, MEAN: mean, **found}, [round(mean, 4), -loss]
