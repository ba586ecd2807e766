"""The page of a ladder: one table of what each rung costs and gives, and one picture of score over cost."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from .report import (
    Bar,
    Bars,
    Block,
    Command,
    Facts,
    NextSteps,
    Report,
    Scatter,
    Table,
    WhatRan,
    write_report,
)
from .report.numbers import plus_minus
from .run import RunFolder

COLUMNS = ("rung", "score", "training", "pre-training", "latency", "texts/s", "parameters", "disk", "memory")


def write_ladder_report(run: RunFolder, result: Mapping[str, Any]) -> None:
    """Write report.html of a run."""
    rows, metric = result["rows"], result["metric"].replace("_", " ")
    best = max(range(len(rows)), key=lambda number: rows[number]["score"])
    seeds = run.recipe["seeds"]
    over = f"mean and deviation over {seeds} seeds" if seeds > 1 else "one seed"
    note = (
        f"{metric.capitalize()} on {result['dev_rows']:,} dev rows, {over}; the dev rows also chose the best epoch of "
        f"each. The budget is one for all: {run.recipe['epochs']} epochs over the rows, and "
        f"{run.recipe['pretrain_steps']:,} steps of pre-training. Times are of this machine: seconds of one training, "
        "of its pre-training, and the median time of one text alone. Memory is what a process grows by when it opens "
        "the model and answers."
    )
    blocks: list[Block] = [
        Table(list(COLUMNS), [cells(row) for row in rows], title="Rungs", strong=[best], note=note),
        Bars([Bar(row["title"], row["score"], _score(row)) for row in rows], title=f"Dev {metric}"),
        _plot(rows, metric),
        Facts({row["title"]: row["about"] for row in rows} | dict(result["left_out"]), title="What they are"),
        WhatRan(shlex.join(_command(run.recipe)), {key: str(value) for key, value in run.recipe.items()}, run.facts()),
    ]
    folder = run.path / "finetuned" / rows[best]["name"] / "model"
    if folder.is_dir():
        blocks.append(NextSteps([Command(f'maskwright predict {folder} "a text"', "use the best")]))
    write_report(
        run.path / "report.html",
        Report(f"ladder on {run.recipe['data']}", headline(rows, metric), None, blocks, run.facts()["started"]),
    )


def headline(rows: Sequence[Mapping[str, Any]], metric: str) -> str:
    """Which rung is best, and which lower one is as good within the deviations."""
    best = max(rows, key=lambda row: row["score"])
    close = next(row for row in rows if row["score"] >= best["score"] - _spread(row, best))
    text = f"Best {metric.replace('_', ' ')}: {best['title']}, {_score(best)}."
    if close is best:
        return f"{text} No lower rung is within the deviation of it."
    return f"{text} The lowest rung within the deviation of it is {close['title']}, {_score(close)}."


def cells(row: Mapping[str, Any]) -> list[str]:
    """A rung as the cells of COLUMNS."""
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
    """Score over time of one text."""
    places = [(float(row["latency_ms"]), float(row["score"])) for row in rows]
    texts = [f"{row['title']}: {_score(row)}, {row['latency_ms']:.2f} ms" for row in rows]
    names = [f"{row['title']}: {_score(row)} in {row['latency_ms']:.2f} ms" for row in rows]
    caption = f"Dev {metric} (up) over the time of one text (right)"
    return Scatter(places, list(range(len(rows))), texts, names, caption, title="What a better score costs")


def _spread(row: Mapping[str, Any], best: Mapping[str, Any]) -> float:
    """How far two means may lie apart by the deviations of their seeds."""
    return float(((row["deviation"] or 0.0) ** 2 + (best["deviation"] or 0.0) ** 2) ** 0.5)


def _score(row: Mapping[str, Any]) -> str:
    return plus_minus(row["score"], row["deviation"])


def _seconds(value: float) -> str:
    return f"{value / 60:.1f} min" if value >= 120 else f"{value:.1f} s"


def _command(recipe: Mapping[str, Any]) -> list[str]:
    words = ["maskwright", "ladder", "--data", recipe["data"]]
    words += ["--dev", recipe["dev"]] if recipe.get("dev") else []
    words += [word for source in recipe["corpus"] for word in ("--corpus", source)]
    words += [word for model in recipe["models"] for word in ("--model", model)]
    words += [word for name in recipe["only"] for word in ("--only", name)]
    for name in ("epochs", "seeds", "pretrain_steps", "hidden_size"):
        words += [f"--{name.replace('_', '-')}", str(recipe[name])]
    return [*words, "-o", recipe["output"]]
