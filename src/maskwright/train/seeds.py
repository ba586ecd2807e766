"""A run of several seeds: each trains in a folder of its own, which goes on by itself, and the run sums them up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .finetune_job import FinetuneJob
from .loop import LoopSettings, train
from .multi_task_job import MultiTaskJob
from .optimizer import ADAM
from .run import RunFolder

if TYPE_CHECKING:
    from .finetune_config import FinetuneConfig
    from .multi_task_config import MultiTaskConfig


@dataclass
class Seed:
    """One finished seed, as its result.json says."""

    seed: int
    metrics: dict[str, float]
    best_step: int
    folder: Path = field(repr=False)


class Seeds(ABC):
    """What runs the seeds of a fine-tuning. config: its recipe."""

    config: FinetuneConfig | MultiTaskConfig

    @abstractmethod
    def job(self, seed: int, folder: RunFolder) -> FinetuneJob | MultiTaskJob:
        """The training of a seed at its first step."""

    def run_seed(self, run: RunFolder, seed: int) -> Seed:
        """Train one seed in its own folder, or read what it found when it is finished."""
        folder = RunFolder(run.path / f"seed-{seed}", run.recipe)
        folder.path.mkdir(exist_ok=True)
        if folder.result is None:
            job = self.job(seed, folder)
            settings = epoch_settings(self.config, job.steps_per_epoch, seed, job.adam)
            train(job, settings, folder, name=f"fine-tuning, seed {seed}")
            folder.finish({"seed": seed, "metrics": job.best["metrics"], "best_step": job.best["step"]})
        found = folder.result or {}
        return Seed(found["seed"], found["metrics"], found["best_step"], folder.path)

    @abstractmethod
    def conclude(self, run: RunFolder, seeds: Sequence[Seed]) -> dict[str, Any]:
        """Write models and report; returns what was found."""

    def run_all(self, run: RunFolder) -> dict[str, Any]:
        """Run every seed, conclude, and mark the run as finished; returns what was found."""
        seeds = [self.run_seed(run, self.config.seed + number) for number in range(self.config.seeds)]
        result = self.conclude(run, seeds)
        run.finish(result)
        return result


def epoch_settings(
    config: FinetuneConfig | MultiTaskConfig, steps_per_epoch: int, seed: int, adam: tuple[float, float] = ADAM
) -> LoopSettings:
    """What the loop does with a job of so many steps in an epoch: scores after each of them."""
    return LoopSettings(
        steps=config.epochs * steps_per_epoch,
        lr=config.lr,
        warmup=config.warmup,
        schedule=config.schedule,
        weight_decay=config.weight_decay,
        clip_norm=config.clip_norm,
        seed=seed,
        log_every=config.log_every,
        checkpoint_every=config.checkpoint_every or steps_per_epoch,
        evaluate_every=steps_per_epoch,
        keep=1,
        adam=adam,
    )


def best_weights(folder: Path) -> Path:
    """Where the folder of a seed keeps the weights that scored best on the dev rows."""
    return folder / "best"


def statistics(seeds: Sequence[Seed], best: Seed) -> dict[str, Any]:
    """Mean and deviation of each metric over seeds, each seed's own figures, and which seed was best."""
    names = list(best.metrics)
    table = np.array([[seed.metrics[name] for name in names] for seed in seeds])  # [seeds, metrics]
    deviation = table.std(axis=0, ddof=1) if len(seeds) > 1 else np.zeros(len(names))
    return {
        "mean": dict(zip(names, table.mean(axis=0).tolist(), strict=True)),
        "deviation": dict(zip(names, deviation.tolist(), strict=True)),
        "seeds": [{"seed": seed.seed, "best_step": seed.best_step, **seed.metrics} for seed in seeds],
        "best_seed": best.seed,
    }
