"""The page of a multi-task run: all tasks beside each other, then a section for each."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..tasks.base import Evaluation
from .finetune_report import baseline, data_blocks, mistake_blocks, show_series
from .multi_task_job import MEAN, MultiTaskJob
from .report import (
    Block,
    Chart,
    Command,
    Curves,
    Figure,
    Health,
    KeyFigures,
    NextSteps,
    Report,
    Section,
    Table,
    Weights,
    WhatRan,
    write_report,
)
from .report.numbers import plus_minus
from .run import RunFolder
from .seeds import Seed

if TYPE_CHECKING:
    from .multi_task import MultiTaskBench

_SHOWN = ("model", "preset", "tokenizer", "epochs", "lr", "batch_size", "max_length", "seeds", "seed")


def write_multi_task_report(
    run: RunFolder,
    bench: MultiTaskBench,
    job: MultiTaskJob,
    seeds: Sequence[Seed],
    evaluations: Mapping[str, Evaluation],
    result: Mapping[str, Any],
) -> None:
    """Write report.html of a run. evaluations: on the dev rows of each task, of the models that the run ends with."""
    simple = {name: baseline(one) for name, one in bench.benches.items()}
    many = len(seeds) > 1

    def score(key: str) -> str:
        return plus_minus(result["mean"][key], result["deviation"][key] if many else None)

    mains = {name: f"{name}.{one.task.main_metric}" for name, one in bench.benches.items()}
    kinds = {name: one.task.main_metric.replace("_", " ") for name, one in bench.benches.items()}
    told = ", ".join(f"{name} {kinds[name]} {score(key)}" for name, key in mains.items())
    first = next(iter(bench.benches.values()))
    blocks: list[Block] = [
        KeyFigures([Figure("mean", score(MEAN)), *(Figure(name, score(key)) for name, key in mains.items())]),
        WhatRan(shlex.join(_command(run.recipe)), {key: str(value) for key, value in run.recipe.items()}, run.facts()),
        _overview(bench, job, score, mains, simple),
        _curves(seeds, mains),
        Weights(first.loaded.loaded, first.loaded.new, first.loaded.unused),
        *(
            Section(name, [*data_blocks(one), *mistake_blocks(one, evaluations[name])], lead=_lead(one))
            for name, one in bench.benches.items()
        ),
        _next(run, bench),
    ]
    health = _health(bench, {name: result["mean"][key] for name, key in mains.items()}, simple)
    headline = f"{len(mains)} tasks on one encoder{f', over {len(seeds)} seeds' if many else ''}. Dev scores: {told}."
    if result["average"] is not None:
        own = {name: result["average"][name][one.task.main_metric] for name, one in bench.benches.items()}
        means = ", ".join(f"{name} {value:.3f}" for name, value in own.items())
        headline += f" The models are the mean of the seeds' weights: {means}."
    write_report(
        run.path / "report.html",
        Report(f"{', '.join(mains)} on one encoder", headline, health, blocks, run.facts()["started"]),
    )


def _lead(one: Any) -> str:
    return f"{one.task.name} on {one.config.train.name}."


def _overview(
    bench: MultiTaskBench, job: MultiTaskJob, score: Any, mains: Mapping[str, str], simple: Mapping[str, Any]
) -> Table:
    rows = []
    for (name, one), steps in zip(bench.benches.items(), job.steps_by_part, strict=True):
        sizes = (one.train.num_rows, one.dev.num_rows, steps)
        metric = one.task.main_metric.replace("_", " ")
        without = f"{simple[name][1]} {simple[name][0]:.3f}"
        rows.append((name, one.task.name, *sizes, f"{metric} {score(mains[name])}", without))
    columns = ("Task", "Kind", "Training rows", "Dev rows", "Steps an epoch", "Dev score", "Without a model")
    note = (
        "The best epoch is that with the highest mean of the main metrics, so a task may have been better in another."
    )
    return Table(columns, rows, title="The tasks", note=note)


def _curves(seeds: Sequence[Seed], mains: Mapping[str, str]) -> Curves:
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
        Chart("Learning rate", show_series(records, "rate", "lr")[:1]),
        Chart("Tokens per second", show_series(records, "training", "tokens_per_second")),
    ]
    return Curves([chart for chart in charts if not chart.is_empty()])


def _health(bench: MultiTaskBench, scores: Mapping[str, float], simple: Mapping[str, tuple[float, str]]) -> Health:
    """As bad as the worst task."""
    poor = [
        f"{name} is no better than no model at all: {simple[name][1]} {simple[name][0]:.3f}."
        for name, score in scores.items()
        if score <= simple[name][0] + 0.01
    ]
    if poor:
        return Health("bad", [*poor, "Train longer, raise --lr, or train that task alone."])
    set_aside = [name for name, one in bench.benches.items() if one.data.from_train]
    if set_aside:
        return Health("watch", [f"The dev rows of {', '.join(set_aside)} come from the training files."])
    return Health("good", ["Every task is above what no model gets."])


def _next(run: RunFolder, bench: MultiTaskBench) -> NextSteps:
    models = run.path / "models"
    return NextSteps(
        [
            Command(f"maskwright evaluate {models / name} TEST-FILE", f"score {name} on rows that decided nothing")
            for name in bench.benches
        ]
    )


def _command(recipe: Mapping[str, Any]) -> list[str]:
    words = ["maskwright", "finetune", recipe["task"], "--multi-task", *recipe["multi_task"]]
    words += ["--dev", *recipe["dev"]] if recipe.get("dev") else []
    for name in _SHOWN:
        if name in recipe:
            words += [f"--{name.replace('_', '-')}", str(recipe[name])]
    words += [f"--{name.replace('_', '-')}" for name in ("average_seeds", "crf", "freeze_encoder") if recipe.get(name)]
    return [*words, "-o", recipe["output"]]
