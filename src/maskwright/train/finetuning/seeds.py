"""Runs of several seeds: each trains, and resumes, in its own folder; the run aggregates their metrics."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.progress import note
from ...core.storage import is_model_folder
from ...core.util import plural
from ...hub.folders import load_model
from ...models.adapters import load_trained_state, trained_state
from ...models.model import Model
from ..checkpoint import read_weights
from ..loop import LoopSettings, train
from ..optimizer import ADAM
from ..run import RESULT, RunFolder
from .config import FinetuneConfig, MultiTaskConfig, epochs_for

MEAN = "mean_score"  # of the tasks of a multi-task run


@dataclass
class SeedResult:
    """The result.json of one finished seed."""

    seed: int
    metrics: dict[str, float]
    best_step: int
    folder: Path = field(repr=False)


class SeedRunner(ABC):
    """Trains the seeds of a fine-tuning. config: its recipe."""

    config: FinetuneConfig | MultiTaskConfig

    @abstractmethod
    def job(self, seed: int, folder: RunFolder) -> Any:
        """The training job of a seed."""

    def run_seed(self, run: RunFolder, seed: int) -> SeedResult:
        """Train one seed in its own folder, or read its result if it is finished."""
        folder = run.part(f"seed-{seed}")
        folder.path.mkdir(exist_ok=True)
        found = folder.finished()
        if found is None:
            job = self.job(seed, folder)
            run.check_inputs(models_only=True)
            epochs = _epochs(self.config, job.steps_per_epoch)
            if seed == self.config.seed and epochs > self.config.epochs:
                note(
                    f"Small data set: {epochs} epochs of {plural(job.steps_per_epoch, 'step')} instead of "
                    f"{self.config.epochs} epochs (--epochs sets another number)."
                )
            settings = epoch_settings(self.config, job.steps_per_epoch, seed, job.adam)
            train(job, settings, folder, name=f"fine-tuning, seed {seed}")
            folder.finish({"seed": seed, "metrics": job.best["metrics"], "best_step": job.best["step"]})
            found = folder.finished()
        return SeedResult(found["seed"], found["metrics"], found["best_step"], folder.path)

    @abstractmethod
    def conclude(self, run: RunFolder, seeds: Sequence[SeedResult]) -> dict[str, Any]:
        """Write models and report; returns the result of the run."""

    def run_all(self, run: RunFolder) -> dict[str, Any]:
        """Train every seed, conclude, and mark the run as finished; returns its result."""
        run.check_inputs()
        seeds = [self.run_seed(run, self.config.seed + number) for number in range(self.config.seeds)]
        result: dict[str, Any] = run.group.from_main(lambda: self.conclude(run, seeds))
        run.check_inputs(models_only=True)
        run.finish(result)
        return result


def epoch_settings(
    config: FinetuneConfig | MultiTaskConfig, steps_per_epoch: int, seed: int, adam: tuple[float, float] = ADAM
) -> LoopSettings:
    """The settings of the training loop, with an evaluation after each epoch."""
    steps = _epochs(config, steps_per_epoch) * steps_per_epoch
    every = config.checkpoint_every or steps_per_epoch
    own = {"checkpoint_every": every, "evaluate_every": steps_per_epoch, "keep": 1, "adam": adam}
    return LoopSettings.of(config, steps=steps, seed=seed, **own)


def _epochs(config: FinetuneConfig | MultiTaskConfig, steps_per_epoch: int) -> int:
    """The number of epochs; several tasks have the number that was set."""
    return epochs_for(config.epochs, getattr(config, "min_steps", 0), steps_per_epoch)


def best_weights(folder: Path) -> Path:
    """The folder with the best weights of a seed."""
    return folder / "best"


def statistics(seeds: Sequence[SeedResult], best: SeedResult) -> dict[str, Any]:
    """Mean and standard deviation of each metric over seeds, the metrics of each seed, and the best seed."""
    return {
        **mean_and_deviation([seed.metrics for seed in seeds]),
        "seeds": [{"seed": seed.seed, "best_step": seed.best_step, **seed.metrics} for seed in seeds],
        "best_seed": best.seed,
    }


def mean_and_deviation(metrics: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """The "mean" and the "deviation" of each metric; that of a single seed is 0."""
    table = np.array([[one[name] for name in metrics[0]] for one in metrics])  # [seeds, metrics]
    deviation = table.std(axis=0, ddof=1) if len(table) > 1 else np.zeros(table.shape[1])
    found = {"mean": table.mean(axis=0), "deviation": deviation}
    return {name: dict(zip(metrics[0], values.tolist(), strict=True)) for name, values in found.items()}


# -- The intermediate models of a run: the best weights of every seed, and those of a checkpoint -----------------------


_SEED = re.compile(r"seed-(\d+)")


def is_run(folder: Path) -> bool:
    """Whether a folder is a run folder and not a model folder."""
    return (folder / "config.toml").is_file() and not is_model_folder(folder)


def seed_models(run: Path) -> dict[str, Callable[[], Model]]:
    """Loaders for the model of each seed of a finished fine-tuning run, by name; with one seed, for the run's model.

    Raises InputError when the run is not finished, or is not a fine-tuning run.
    """
    model = run / "model"
    if not (run / RESULT).is_file() or not model.is_dir():
        raise InputError(f"{run} is not a finished fine-tuning run: rerun its command to finish it first.")
    seeds = sorted(
        (int(found[1]), folder)
        for folder in run.glob("seed-*")
        if (found := _SEED.fullmatch(folder.name)) and best_weights(folder).is_dir()
    )
    if len(seeds) < 2:
        return {str(model): lambda: load_model(model)[0]}
    return {str(folder): partial(_with_weights, model, best_weights(folder)) for _, folder in seeds}


def _with_weights(model: Path, folder: Path) -> Model:
    found = load_model(model)[0]
    load_trained_state(found, read_weights(folder))
    return found.train(False)


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder is a checkpoint of a run: weights without a model configuration."""
    has = [(folder / name).is_file() for name in ("state.json", "model.safetensors", "config.json")]
    return has == [True, True, False]


def checkpoint_model(folder: Path) -> Model:
    """The model of a finished run with the weights of a checkpoint, such as runs/a/checkpoints/step-500, or of a seed,
    such as runs/b/seed-0/checkpoints/step-500.

    Raises InputError for a run without a model, and for one that also trained another network.
    """
    run = folder.resolve().parent.parent
    model = (run.parent if _SEED.fullmatch(run.name) else run) / "model"
    if not model.is_dir():
        raise InputError(f"{folder} is a checkpoint of an unfinished run: rerun its command to finish it first.")
    found = load_model(model)[0]
    weights = read_weights(folder)
    if weights.keys() != trained_state(found).keys():
        raise InputError(f"{folder} contains weights of another network than {model}: it cannot be shown.")
    load_trained_state(found, weights)
    return found.train(False)
