"""The HTML report of a multi-task run: an overview of all tasks, then a section for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.config import command_line
from ...report import (
    Block,
    Chart,
    Command,
    Curves,
    Figure,
    Health,
    KeyFigures,
    NextSteps,
    Report,
    RunMetadata,
    Section,
    Table,
    Weights,
    write_report,
)
from ...report.numbers import plus_minus
from ...tasks.base import Evaluation
from ...tasks.report import report_of
from ..against_baseline import Compared, worst_level
from ..run import RunFolder
from .config import MultiTaskConfig
from .report import data_blocks, show_series
from .run_data import RunData
from .seeds import MEAN, SeedResult


def write_multi_task_report(
    run: RunFolder,
    parts: Mapping[str, RunData],
    steps: Sequence[int],
    seeds: Sequence[SeedResult],
    evaluations: Mapping[str, Evaluation],
    result: Mapping[str, Any],
) -> None:
    """Write report.html of a run. parts: the data of each task by name; steps: per epoch, of each task; evaluations: of
    the saved models on the dev examples of each task.
    """
    simple = {name: Compared.from_json(one) for name, one in result["baselines"].items()}
    many = len(seeds) > 1

    def score(key: str) -> str:
        return plus_minus(result["mean"][key], result["deviation"][key] if many else None)

    mains = {name: f"{name}.{one.task.main_metric}" for name, one in parts.items()}
    kinds = {name: one.task.main_metric.replace("_", " ") for name, one in parts.items()}
    told = ", ".join(f"{name} {kinds[name]} {score(key)}" for name, key in mains.items())
    first = next(iter(parts.values()))
    blocks: list[Block] = [
        KeyFigures([Figure("mean", score(MEAN)), *(Figure(name, score(key)) for name, key in mains.items())]),
        RunMetadata(
            command_line(MultiTaskConfig, run.recipe),
            {key: str(value) for key, value in run.recipe.items()},
            run.facts(),
        ),
        _overview(parts, steps, score, mains, simple),
        _curves(seeds, mains),
        Weights(first.loaded.loaded, first.loaded.new, first.loaded.unused),
        *(
            Section(name, [*data_blocks(one), *report_of(one).mistakes(evaluations[name])], lead=_lead(one))
            for name, one in parts.items()
        ),
        _next(run, parts),
    ]
    health = _health(parts, simple)
    headline = f"{len(mains)} tasks on one encoder{f', over {len(seeds)} seeds' if many else ''}. Dev scores: {told}."
    if result["average"] is not None:
        own = {name: result["average"][name][one.task.main_metric] for name, one in parts.items()}
        means = ", ".join(f"{name} {value:.3f}" for name, value in own.items())
        headline += f" The saved models average the seeds' weights: {means}."
    write_report(
        run.path / "report.html",
        Report(f"{', '.join(mains)} on one encoder", headline, health, blocks, run.facts()["started"]),
    )


def _lead(one: RunData) -> str:
    return f"{one.task.name} on {one.config.train.name}."


def _overview(
    parts: Mapping[str, RunData],
    steps: Sequence[int],
    score: Any,
    mains: Mapping[str, str],
    simple: Mapping[str, Compared],
) -> Table:
    rows = []
    for (name, one), count in zip(parts.items(), steps, strict=True):
        sizes = (one.train.num_rows, one.dev.num_rows, count)
        metric = one.task.main_metric.replace("_", " ")
        without = f"{simple[name].predictor} {simple[name].baseline:.3f}"
        rows.append((name, one.task.name, *sizes, f"{metric} {score(mains[name])}", without))
    columns = ("Task", "Type", "Training rows", "Dev examples", "Steps per epoch", "Dev score", "Baseline")
    note = "The best epoch has the highest mean of the main metrics; a single task may have a better score in another."
    return Table(columns, rows, title="The tasks", note=note)


def _curves(seeds: Sequence[SeedResult], mains: Mapping[str, str]) -> Curves:
    records = [RunFolder(seed.folder, {}).records() for seed in seeds]
    charts = [
        Chart("Training loss", [line for name in mains for line in show_series(records, name, f"{name}_loss")]),
        Chart("Dev loss", [line for name in mains for line in show_series(records, name, f"eval_{name}.loss")]),
        Chart(
            "Dev scores",
            [
                *(line for name, key in mains.items() for line in show_series(records, name, f"eval_{key}")),
                *show_series(records, "mean", f"eval_{MEAN}"),
            ],
        ),
        Chart("Learning rate", show_series(records, "learning rate", "lr")[:1]),
        Chart("Tokens per second", show_series(records, "training", "tokens_per_second")),
    ]
    return Curves(charts)


def _health(parts: Mapping[str, RunData], simple: Mapping[str, Compared]) -> Health:
    """The health of the worst task."""
    told = [f"{name}: {one}." for name, one in simple.items()]
    if worst_level(list(simple.values())) == "bad":
        return Health("bad", [*told, "Train longer, raise --lr, or fine-tune the failing tasks separately."])
    set_aside = [name for name, one in parts.items() if one.is_split]
    if set_aside:
        return Health(
            "watch", [*told, f"The dev examples of {', '.join(set_aside)} are held out from the training files."]
        )
    return Health(worst_level(list(simple.values())), told)


def _next(run: RunFolder, parts: Mapping[str, RunData]) -> NextSteps:
    models = run.path / "models"
    return NextSteps(
        [
            Command.suggest(f"score {name} on unseen test rows", "evaluate", model=models / name, file="TEST-FILE")
            for name in parts
        ]
    )
