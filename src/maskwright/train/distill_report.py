"""The page of a distillation: how small, how fast, and how much of the score is kept."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from .distill_measure import Measured
from .distill_student import Student
from .report import (
    Chart,
    Command,
    Curves,
    Figure,
    Health,
    KeyFigures,
    NextSteps,
    Report,
    Series,
    Table,
    Weights,
    WhatRan,
    write_report,
)
from .report.numbers import percent
from .run import RunFolder

GOOD, FAIR = 0.95, 0.85  # of the teacher's score


def write_distill_report(run: RunFolder, rows: Sequence[Measured], result: dict[str, Any], student: Student) -> None:
    """Write report.html of a run. rows: teacher, student, and what pruning leaves of the teacher."""
    teacher, own = rows[0], rows[1]
    metric, kept = result["metric"], result["score_kept"]
    words = metric.replace("_", " ")
    size, speed = own.parameters / teacher.parameters, own.texts_per_second / teacher.texts_per_second
    share = "" if kept is None else f", {percent(kept)} of the teacher's"
    headline = (
        f"The student has {percent(size)} of the teacher's parameters, runs {speed:.2f} times as fast, and reaches "
        f"{words} {own.scores[metric]:.3f}{share}."
    )
    recipe = run.recipe
    model = run.path / "model"
    blocks = [
        KeyFigures(
            [
                Figure("Score kept", "-" if kept is None else percent(kept), note=f"{words}, held-out data"),
                Figure("Size", percent(size), note=f"{own.parameters:,} of {teacher.parameters:,} parameters"),
                Figure("Speed", round(speed, 2), "times", f"{own.texts_per_second:,.0f} texts/s"),
            ]
        ),
        comparison(rows, metric),
        WhatRan(shlex.join(_command(recipe)), {key: str(value) for key, value in recipe.items()}, run.facts()),
        _curves(run.records(), metric),
        Weights(student.copied, student.new, title="First weights of the student"),
        NextSteps([Command(*_use(recipe, str(model)))]),
    ]
    report = Report("distillation", headline, _health(kept, words), blocks, run.facts()["started"])
    write_report(run.path / "report.html", report)


def comparison(rows: Sequence[Measured], metric: str) -> Table:
    """Size, speed and score of each network, beside the teacher's."""
    teacher = rows[0]
    cells = [
        (
            row.name,
            row.layers,
            row.heads,
            row.parameters,
            f"{row.size_bytes / 1e6:,.1f} MB",
            percent(row.parameters / teacher.parameters),
            round(row.texts_per_second),
            round(row.texts_per_second / teacher.texts_per_second, 2),
            round(row.scores[metric], 4),
            percent(row.scores[metric] / teacher.scores[metric]) if teacher.scores[metric] > 0 else "-",
        )
        for row in rows
    ]
    columns = ("network", "layers", "heads", "parameters", "weights", "size", "texts/s", "speed", metric, "kept")
    return Table(
        columns,
        cells,
        title="Beside the teacher",
        note="Speed of forward passes over the same held-out batches. What is pruned was not trained again.",
        strong=[1],
    )


def _health(kept: float | None, words: str) -> Health:
    if kept is None:
        return Health("bad", [f"The teacher's own {words} is 0 or below: there is nothing to keep."])
    if kept >= GOOD:
        return Health("good", [f"It keeps {percent(kept)} of the teacher's {words}."])
    level = "watch" if kept >= FAIR else "bad"
    return Health(level, [f"It keeps {percent(kept)} of the teacher's {words}: train longer, or keep more layers."])  # type: ignore[arg-type]


def _curves(records: list[dict[str, Any]], metric: str) -> Curves:
    def series(name: str, key: str) -> Series:
        found = [(record["step"], record[key]) for record in records if key in record]
        return Series(name, [x for x, _ in found], [y for _, y in found])

    charts = [
        Chart(
            "Distance to the teacher's answers", [series("training", "soft_loss"), series("held out", "eval_soft_loss")]
        ),
        Chart(
            "Distance to the teacher's hidden states (1 - cosine)",
            [series("training", "hidden_loss"), series("held out", "eval_hidden_loss")],
        ),
        Chart(f"Held-out {metric.replace('_', ' ')}", [series("student", f"eval_{metric}")]),
        Chart("Learning rate", [series("rate", "lr")]),
        Chart("Tokens per second", [series("training", "tokens_per_second")]),
    ]
    return Curves([chart for chart in charts if not chart.is_empty()])


def _use(recipe: dict[str, Any], model: str) -> tuple[str, str]:
    if "train" in recipe:
        return f'maskwright predict {model} "your text"', "use it"
    return f'maskwright fill-mask {model} "your text with one [MASK] ."', "see what it kept"


def _command(recipe: dict[str, Any]) -> list[str]:
    words = ["maskwright", "distill"]
    names = ["teacher", "preset", "layers", "train", "dev", "temperature", "lr", "max_length", "seed"]
    names += ["epochs", "batch_size"] if "train" in recipe else ["steps", "batch_tokens"]
    for name in names:
        if name in recipe:
            words += [f"--{name.replace('_', '-')}", str(recipe[name])]
    return [*words, "-o", recipe["output"], *recipe.get("corpus", ())]
