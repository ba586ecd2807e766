"""Fine-tuning one encoder for several tasks at once: a head for each, in one run that ends with a model for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..core.config import to_dict
from ..core.plural import plural
from ..core.progress import note
from ..hub.folders import save_model
from ..models.device import resolve_device, resolve_precision
from ..tasks.base import Evaluation
from .average import mean_weights
from .finetune import Bench
from .finetune_job import FolderKeeper
from .multi_task_config import MultiTaskConfig
from .multi_task_job import MEAN, MultiTaskJob, Part, SharedEncoder
from .multi_task_report import write_multi_task_report
from .run import RunFolder, RunResult, open_run
from .seeds import Seed, Seeds, best_weights, statistics


@dataclass(frozen=True)
class MultiTaskResult(RunResult):
    """Where a run's results are, and its dev figures.

    tasks: of each its "main_metric" and "metrics" (means over seeds), by name; mean, deviation, seeds: of all figures
    of the run, as `NAME.METRIC`; average: those of the mean of the seeds' weights, by task, or None.
    """

    tasks: dict[str, dict[str, Any]]
    mean: dict[str, float]
    deviation: dict[str, float]
    seeds: list[dict[str, Any]]
    average: dict[str, dict[str, float]] | None = None
    already_finished: bool = False

    @property
    def model(self) -> Path:
        """The folder that holds a model folder for each task."""
        return self.output / "models"

    @property
    def models(self) -> dict[str, Path]:
        """The model folder of each task, by name."""
        return {name: self.model / name for name in self.tasks}


def finetune_tasks(config: MultiTaskConfig, *, restart: bool = False) -> MultiTaskResult:
    """Run `config`, or go on with it where it was cut off; a finished run is not run again. Raises as `finetune`."""
    device = resolve_device(config.device)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True))
    with open_run(config.output, to_dict(config), restart=restart) as run:
        if run.result is not None:
            return _result(run, run.result, already_finished=True)
        return _result(run, MultiTaskBench(config, device).run_all(run))


class MultiTaskBench(Seeds):
    """Holds the data of all tasks and runs the seeds. benches: of each task its own, by name."""

    config: MultiTaskConfig

    def __init__(self, config: MultiTaskConfig, device: torch.device) -> None:
        self.config, self.device = config, device
        self.benches = {name: Bench(part, device) for name, part in config.parts().items()}
        for name, bench in self.benches.items():
            rows = f"{plural(bench.train.num_rows, 'training row')}, {plural(bench.dev.num_rows, 'dev row')}"
            note(f"{name}: {bench.task.name}, {rows}.")

    def job(self, seed: int, folder: RunFolder) -> MultiTaskJob:
        """The training of a seed at its first step."""
        config, models, parts = self.config, [], []
        for name, bench in self.benches.items():
            model, train, dev = bench.start(seed)
            models.append(model)
            parts.append(Part(name, bench.task, train, dev))
        return MultiTaskJob(
            SharedEncoder(models),
            parts,
            FolderKeeper(best_weights(folder.path)),
            batch_size=config.batch_size,
            seed=seed,
            device=self.device,
            accumulation=config.accumulation,
            patience=config.patience,
            freeze_encoder=config.freeze_encoder,
        )

    def conclude(self, run: RunFolder, seeds: Sequence[Seed]) -> dict[str, Any]:
        """Write a model folder for each task, and the report; returns what marks the run finished."""
        best = max(seeds, key=lambda seed: seed.metrics[MEAN])
        job = self.job(best.seed, RunFolder(best.folder, run.recipe))
        job.conclude()
        if self.config.average_seeds:
            job.model.load_state_dict(mean_weights([best_weights(seed.folder) for seed in seeds]))
        found: dict[str, Evaluation] = {}
        for (name, bench), model in zip(self.benches.items(), job.model.models, strict=True):
            found[name] = bench.task.evaluate(model, bench.dev)
            bench.task.settle(found[name].logits, bench.dev)
        result = {
            **statistics(seeds, best),
            "main_metrics": {name: bench.task.main_metric for name, bench in self.benches.items()},
            "average": {name: {"loss": one.loss, **one.metrics} for name, one in found.items()}
            if self.config.average_seeds
            else None,
        }
        for (name, bench), model in zip(self.benches.items(), job.model.models, strict=True):
            facts = {
                **bench.task.to_json(),
                "max_length": self.config.max_length,
                "training": {**run.recipe, "part": name, **result},
            }
            save_model(model, run.path / "models" / name, facts=facts, replace=True)
        write_multi_task_report(run, self, job, seeds, found, result)
        return result


def _result(run: RunFolder, result: dict[str, Any], already_finished: bool = False) -> MultiTaskResult:
    mean, tasks = result["mean"], {}
    for name, main in result["main_metrics"].items():
        own = {key.removeprefix(f"{name}."): value for key, value in mean.items() if key.startswith(f"{name}.")}
        tasks[name] = {"main_metric": main, "metrics": own}
    return MultiTaskResult(
        run.path, tasks, mean, result["deviation"], result["seeds"], result["average"], already_finished
    )
