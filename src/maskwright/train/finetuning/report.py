"""The HTML reports of fine-tuning runs: of one task, and of several tasks on one encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...hub.folders import LoadReport
from ...report import (
    Bar,
    Bars,
    Block,
    Command,
    Comparison,
    Facts,
    Figure,
    Health,
    KeyFigures,
    NextSteps,
    Report,
    RunMetadata,
    Score,
    Section,
    System,
    Table,
    Weights,
    write_report,
)
from ...report.charts import Chart, Curves, Histogram, Series
from ...report.numbers import fraction, percent, plus_minus
from ...tasks.base import Evaluation, TaskData
from ...tasks.evaluation.report import trust_blocks
from ...tasks.report import report_of
from ...tasks.specs import readers_of
from ..against_baseline import Compared, worst_level
from ..run import RunFolder
from .config import FinetuneConfig, MultiTaskConfig
from .seeds import MEAN, SeedResult


@dataclass(frozen=True, kw_only=True)
class RunData(TaskData):
    """Task, rows and settings of a run, for its report.

    is_split: whether dev was held out from train; num_skipped: number of skipped bad rows; loaded: the loaded and new
    weights of the model.
    """

    config: FinetuneConfig
    is_split: bool
    num_skipped: int
    loaded: LoadReport


def write_finetune_report(
    run: RunFolder, data: RunData, seeds: Sequence[SeedResult], evaluation: Evaluation, result: dict[str, Any]
) -> None:
    """Write report.html of a run. evaluation: of the saved model on the dev examples."""
    metric, average, of_task = result["main_metric"], result["average"], report_of(data)
    name = _words(metric)
    deviations = result["deviation"] if len(seeds) > 1 else {}
    against = Compared.from_json(result["baseline"])
    dev = "rows held out from the training file" if result["dev_from_train"] else "dev examples"
    over = f" over {len(seeds)} seeds" if len(seeds) > 1 else ""
    headline = (
        f"Dev {name} {plus_minus(result['mean'][metric], deviations.get(metric))}{over}, on "
        f"{data.dev.num_rows:,} {dev}; {against.predictor}: {against.baseline:.3f}."
    )
    if average is not None:
        headline += f" The saved model averages their weights: {average[metric]:.3f}."
    figures = {_words(key): plus_minus(value, deviations.get(key)) for key, value in result["mean"].items()}
    final = {name: f"{value:.4g}" for name, value in result["final"].items()} if result["signatures"] else {}
    final |= {f"signature of {name}": text for name, text in result["signatures"].items()}
    scores = Score(result["mean"][metric], deviations.get(metric), [seed.metrics[metric] for seed in seeds])
    systems = [System("this run", {metric: scores}, seeds=len(seeds))]
    systems += [] if average is None else [System("averaged weights", {metric: average[metric]})]
    systems.append(System(against.predictor, {metric: against.baseline}, source="baseline"))
    optimistic = (
        "The best epoch of each seed was chosen on the dev examples, so these scores are optimistic; score unseen test "
        "rows with maskwright evaluate."
    )
    blocks: list[Block] = [
        KeyFigures([Figure(name, value) for name, value in figures.items()]),
        RunMetadata.of(FinetuneConfig, run.recipe, run.facts()),
        Facts(final, title="The final model on the dev examples (beam search)"),
        *data_blocks(data),
        _curves(
            seeds, {"": f"{data.task.name}_loss"}, {"": "eval_loss"}, {"dev": f"eval_{metric}"}, f"Dev {_words(metric)}"
        ),
        Weights(data.loaded.loaded, data.loaded.new, data.loaded.unused),
        *_trust(data, evaluation),
        *of_task.mistakes(evaluation),
        *_mixture(result.get("mix")),
        Comparison(systems, note=optimistic),
        NextSteps(of_task.next_steps(run.path / "model", readers_of(data.task.name)[0].example_file)),
    ]
    health = Health(against.level, [f"{against}."])
    if result["dev_from_train"]:
        reason = "The dev examples are held out from the training file; a separate --dev file is more reliable."
        health = Health("bad" if against.level == "bad" else "watch", [f"{against}.", reason])
    _write(run, f"{data.task.name} on {data.config.train.name}", headline, health, blocks)


def write_multi_task_report(
    run: RunFolder,
    parts: Mapping[str, RunData],
    steps: Sequence[int],
    seeds: Sequence[SeedResult],
    evaluations: Mapping[str, Evaluation],
    result: Mapping[str, Any],
) -> None:
    """Write report.html of a run of several tasks: an overview, then a section for each.

    parts: the data of each task by name; steps: per epoch, of each task; evaluations: of
    the saved models on the dev examples of each task.
    """
    simple = {name: Compared.from_json(one) for name, one in result["baselines"].items()}
    metrics = {name: one.task.main_metric for name, one in parts.items()}
    mains = {name: f"{name}.{metric}" for name, metric in metrics.items()}
    deviations = result["deviation"] if len(seeds) > 1 else {}
    scores = {
        name: plus_minus(result["mean"][key], deviations.get(key)) for name, key in {"mean": MEAN, **mains}.items()
    }
    told = ", ".join(f"{name} {_words(metric)} {scores[name]}" for name, metric in metrics.items())
    over = f", over {len(seeds)} seeds" if len(seeds) > 1 else ""
    headline = f"{len(mains)} tasks on one encoder{over}. Dev scores: {told}."
    if result["average"] is not None:
        means = ", ".join(f"{name} {result['average'][name][metric]:.3f}" for name, metric in metrics.items())
        headline += f" The saved models average the seeds' weights: {means}."
    rows = []
    for (name, one), count in zip(parts.items(), steps, strict=True):
        without = f"{simple[name].predictor} {simple[name].baseline:.3f}"
        score = f"{_words(metrics[name])} {scores[name]}"
        rows.append((name, one.task.name, one.train.num_rows, one.dev.num_rows, count, score, without))
    columns = ("Task", "Type", "Training rows", "Dev examples", "Steps per epoch", "Dev score", "Baseline")
    note = "The best epoch has the highest mean of the main metrics; a single task may have a better score in another."
    losses = ({name: f"{name}_loss" for name in mains}, {name: f"eval_{name}.loss" for name in mains})
    dev = {name: f"eval_{key}" for name, key in {**mains, "mean": MEAN}.items()}
    first = next(iter(parts.values())).loaded
    blocks: list[Block] = [
        KeyFigures([Figure(name, score) for name, score in scores.items()]),
        RunMetadata.of(MultiTaskConfig, run.recipe, run.facts()),
        Table(columns, rows, title="The tasks", note=note),
        _curves(seeds, *losses, dev, "Dev scores"),
        Weights(first.loaded, first.new, first.unused),
    ]
    commands = []
    for name, one in parts.items():
        own = [*data_blocks(one), *report_of(one).mistakes(evaluations[name])]
        blocks.append(Section(name, own, f"{one.task.name} on {one.config.train.name}."))
        model = run.path / "models" / name
        commands.append(Command.suggest(f"score {name} on unseen test rows", "evaluate", model=model, file="TEST-FILE"))
    level, reasons = worst_level(list(simple.values())), [f"{name}: {one}." for name, one in simple.items()]
    set_aside = [name for name, one in parts.items() if one.is_split]
    if level == "bad":
        reasons.append("Train longer, raise --lr, or fine-tune the failing tasks separately.")
    elif set_aside:
        level = "watch"
        reasons.append(f"The dev examples of {', '.join(set_aside)} are held out from the training files.")
    title = f"{', '.join(mains)} on one encoder"
    _write(run, title, headline, Health(level, reasons), [*blocks, NextSteps(commands)])


def _write(run: RunFolder, title: str, headline: str, health: Health, blocks: Sequence[Block]) -> None:
    write_report(run.path / "report.html", Report(title, headline, health, blocks, run.facts()["started"]))


def _words(metric: str) -> str:
    return metric.replace("_", " ")


def data_blocks(data: RunData) -> list[Block]:
    """Dataset statistics: number of rows, labels, lengths, and truncated or skipped rows."""
    of_task = report_of(data)
    facts = {
        "training rows": data.train.num_rows,
        "dev examples": data.dev.num_rows,
        "skipped bad rows": data.num_skipped,
        "tokens in training rows": int(data.train.lengths.sum()),
        **of_task.facts(),
    }
    lengths, sequences = of_task.lengths(), of_task.sequences
    counts, edges = np.histogram(lengths, bins=min(30, max(int(lengths.max()), 2)))
    title, marks = f"Length of the training {sequences}", {"max_length": data.max_length}
    chart = Histogram(edges.tolist(), counts.tolist(), "tokens", sequences, marks, title=title)
    return [Facts(facts, title="The data"), *of_task.labels(), chart]


def _curves(
    seeds: Sequence[SeedResult],
    training: Mapping[str, str],
    dev: Mapping[str, str],
    scores: Mapping[str, str],
    title: str,
) -> Curves:
    """Losses, dev scores, learning rate, speed. training, dev, scores: names of lines, and the keys of their values."""
    records = [RunFolder(seed.folder, {}).records() for seed in seeds]

    def lines(keys: Mapping[str, str], part: str = "") -> list[Series]:
        names = {key: ", ".join(filter(None, (name, part))) for name, key in keys.items()}
        return [Series.of(run, name, key) for key, name in names.items() for run in records]

    return Curves(
        [
            Chart("Loss", [*lines(training, "training"), *lines(dev, "dev")]),
            Chart(title, lines(scores)),
            Chart("Learning rate", [Series.of(records[0], "learning rate", "lr")]),
            Chart("Tokens per second", [Series.of(run, "training", "tokens_per_second") for run in records]),
        ]
    )


def _trust(data: RunData, evaluation: Evaluation) -> list[Block]:
    decisions = data.task.decisions(evaluation.logits, data.dev)
    return [] if decisions is None else trust_blocks(decisions, data.task.temperature, abstains=data.task.can_abstain)


def _mixture(mix: Mapping[str, Any] | None) -> list[Block]:
    """Layer weights of a scalar mix, if the head has one."""
    if mix is None:
        return []
    labels = ["embeddings", *(f"layer {number}" for number in range(1, len(mix["shares"])))]
    return [mixture_bars(labels, mix["shares"], [percent(share) for share in mix["shares"]], mix["scale"])]


def mixture_bars(
    labels: Sequence[str], shares: Sequence[float], texts: Sequence[str], scale: float, of: str = ""
) -> Bars:
    """The weights of a scalar mix of layers. shares: softmax weights; texts: labels at the bars; of: what the weights
    are averaged over.
    """
    bars = [Bar(label, share, text) for label, share, text in zip(labels, shares, texts, strict=True)]
    note = (
        f"softmax(w) of Peters et al. 2018, equation 1, {of}the scale gamma is {fraction(scale)}. Untrained weight of "
        f"each layer: {percent(1 / len(labels))}."
    )
    return Bars(bars, title="Scalar mix weights by layer", note=note)
