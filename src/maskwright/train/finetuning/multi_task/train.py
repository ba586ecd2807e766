"""Multi-task learning: fine-tunes a shared encoder with one head per task, and saves a model for each task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ....core.progress import note
from ....core.util import plural
from ....hub.folders import save_model
from ....models.device import resolve_device, resolve_precision
from ....tasks.base import Evaluation
from ...against_baseline import Compared
from ...callbacks import Callback
from ...checkpoint import mean_weights
from ...distributed import check_processes, joined
from ...run import RunFolder, RunResult, open_run_of
from ..finetune import FinetuningSetup
from ..job import DiskBestModelSaver
from ..seeds import SeedResult, SeedRunner, best_weights, statistics
from .config import MultiTaskConfig
from .job import MEAN, MultiTaskJob, Part, SharedEncoder
from .report import write_multi_task_report


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
    already_finished: bool = False
    baselines: dict[str, Compared] = field(default_factory=dict)

    @property
    def model(self) -> Path:
        """The folder that contains a model folder for each task."""
        return self.output / "models"

    @property
    def models(self) -> dict[str, Path]:
        """The model folder of each task, by name."""
        return {name: self.model / name for name in self.tasks}


def finetune_tasks(
    config: MultiTaskConfig, *, restart: bool = False, callbacks: Sequence[Callback] = ()
) -> MultiTaskResult:
    """Run `config`, or resume it; a finished run is returned unchanged. Raises the errors of `finetune`."""
    device = resolve_device(config.device)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True))
    # The names of the tasks, which are compared too, come from those of the files.
    own = {"multi_task": lambda: {f"{part.task}:{name}": part.train for name, part in config.parts().items()}}
    with (
        joined(config.output, device) as group,
        open_run_of(config, own, restart=restart, group=group, callbacks=callbacks) as run,
    ):
        check_processes(config, group)
        if finished := group.from_main(lambda: run.result):
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
        """The training job of a seed."""
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

    @staticmethod
    def _mean(seeds: Sequence[SeedResult], metric: str) -> float:
        return sum(seed.metrics[metric] for seed in seeds) / len(seeds)

    def conclude(self, run: RunFolder, seeds: Sequence[SeedResult]) -> dict[str, Any]:
        """Write a model folder for each task, and the report; returns the result of the run."""
        best = max(seeds, key=lambda seed: seed.metrics[MEAN])
        job = self.job(best.seed, RunFolder(best.folder, run.recipe))
        job.conclude()
        if self.config.average_seeds:
            job.model.load_state_dict(mean_weights([best_weights(seed.folder) for seed in seeds]))
        found: dict[str, Evaluation] = {}
        for (name, setup), model in zip(self.setups.items(), job.model.models, strict=True):
            found[name] = setup.task.evaluate(model, setup.dev)
            setup.task.tune_threshold(found[name].logits, setup.dev)
        result = {
            **statistics(seeds, best),
            "baselines": {
                name: Compared.of_task(setup.run_data, self._mean(seeds, f"{name}.{setup.task.main_metric}")).to_json()
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
    return MultiTaskResult(
        run.path,
        tasks,
        mean,
        result["deviation"],
        result["seeds"],
        result["average"],
        already_finished,
        {name: Compared.from_json(one) for name, one in result.get("baselines", {}).items()},
    )
