"""The HTML report of a ladder: a table of scores and costs of each model, and a plot of score over latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.options import command_line
from ...report import Bar, Bars, Block, Command, Facts, NextSteps, Report, RunMetadata, Scatter, Table, write_report
from ...report.numbers import plus_minus
from ...train.run import RunFolder
from .config import LadderConfig

COLUMNS = ("model", "score", "training", "pre-training", "latency", "texts/s", "parameters", "disk", "memory")


def write_ladder_report(run: RunFolder, result: Mapping[str, Any]) -> None:
    """Write report.html of a run."""
    rows, metric = result["rows"], result["metric"].replace("_", " ")
    best = max(range(len(rows)), key=lambda number: rows[number]["score"])
    seeds = run.recipe["seeds"]
    over = f"mean and deviation over {seeds} seeds" if seeds > 1 else "one seed"
    note = (
        f"{metric.capitalize()} on {result['dev_rows']:,} dev examples, {over}; the best epoch of each is also "
        f"chosen on them. All models have the same budget: {run.recipe['epochs']} epochs over the rows, and "
        f"{run.recipe['pretrain_steps']:,} steps of pre-training. Times on this machine: seconds of one training, of "
        "its pre-training, and the median latency of a single text. Memory is the peak increase of a process that "
        "loads the model and predicts."
    )
    blocks: list[Block] = [
        Table(list(COLUMNS), [cells(row) for row in rows], title="Models", strong=[best], note=note),
        Bars([Bar(row["title"], row["score"], _score(row)) for row in rows], title=f"Dev {metric}"),
        _plot(rows, metric),
        Facts({row["title"]: row["about"] for row in rows} | dict(result["left_out"]), title="Descriptions"),
        RunMetadata(
            command_line(LadderConfig, run.recipe), {key: str(value) for key, value in run.recipe.items()}, run.facts()
        ),
    ]
    folder = run.path / "finetuned" / rows[best]["name"] / "model"
    if folder.is_dir():
        blocks.append(NextSteps([Command.suggest("use the best", "predict", model=folder, texts="your text")]))
    write_report(
        run.path / "report.html",
        Report(f"ladder on {run.recipe['data']}", headline(rows, metric), None, blocks, run.facts()["started"]),
    )


def headline(rows: Sequence[Mapping[str, Any]], metric: str) -> str:
    """The best model, and the simplest one that is as good within the deviations."""
    best = max(rows, key=lambda row: row["score"])
    close = next(row for row in rows if row["score"] >= best["score"] - _spread(row, best))
    text = f"Best {metric.replace('_', ' ')}: {best['title']}, {_score(best)}."
    if close is best:
        return f"{text} No simpler model is within its deviation."
    return f"{text} The simplest model within its deviation is {close['title']}, {_score(close)}."


def cells(row: Mapping[str, Any]) -> list[str]:
    """The cells of a model, in the order of COLUMNS."""
    return [
        row["title"],
        _score(row),
        _seconds(row["train_seconds"]),
        _seconds(row["pretrain_seconds"]) if row["pretrain_seconds"] else "",
        f"{row['latency_ms']:.2f} ms",
        f"{row['texts_per_second']:,.0f}",
        f"{row['parameters']:,}",
        f"{row['disk_mb']:.1f} MB",
        f"{row['memory_mb']:.0f} MB",
    ]


def _plot(rows: Sequence[Mapping[str, Any]], metric: str) -> Scatter:
    """Score over latency."""
    places = [(float(row["latency_ms"]), float(row["score"])) for row in rows]
    texts = [f"{row['title']}: {_score(row)}, {row['latency_ms']:.2f} ms" for row in rows]
    names = [f"{row['title']}: {_score(row)} in {row['latency_ms']:.2f} ms" for row in rows]
    caption = f"Dev {metric} (vertical) over the latency of one text (horizontal)"
    return Scatter(places, list(range(len(rows))), texts, names, caption, title="Score over latency")


def _spread(row: Mapping[str, Any], best: Mapping[str, Any]) -> float:
    """The standard deviation of the difference of two means."""
    return float(((row["deviation"] or 0.0) ** 2 + (best["deviation"] or 0.0) ** 2) ** 0.5)


def _score(row: Mapping[str, Any]) -> str:
    return plus_minus(row["score"], row["deviation"])


def _seconds(value: float) -> str:
    return f"{value / 60:.1f} min" if value >= 120 else f"{value:.1f} s"
