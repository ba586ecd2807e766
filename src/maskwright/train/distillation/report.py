"""The HTML report of a distillation: size, speed and score of the student compared with the teacher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.options import command_line
from ...objectives.masked import MASKED_TEXT
from ...report import (
    Chart,
    Command,
    Curves,
    Figure,
    Health,
    KeyFigures,
    NextSteps,
    Report,
    RunMetadata,
    Series,
    Table,
    Weights,
    write_report,
)
from ...report.content import Level
from ...report.numbers import percent
from ..against_baseline import Compared
from ..run import RunFolder
from .config import DistillConfig
from .measure import Measured
from .student import Student

GOOD, FAIR = 0.95, 0.85  # of the teacher's score


def write_distill_report(run: RunFolder, rows: Sequence[Measured], result: dict[str, Any], student: Student) -> None:
    """Write report.html of a run. rows: teacher, student, and the compressed teachers."""
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
        RunMetadata(
            command_line(DistillConfig, recipe), {key: str(value) for key, value in recipe.items()}, run.facts()
        ),
        _curves(run.records(), metric),
        Weights(student.copied, student.new, title="Initialization of the student"),
        NextSteps([_use(recipe, str(model), metric)]),
    ]
    report = Report(
        "distillation",
        headline,
        _health(kept, words, Compared.from_json(result["baseline"])),
        blocks,
        run.facts()["started"],
    )
    write_report(run.path / "report.html", report)


def comparison(rows: Sequence[Measured], metric: str) -> Table:
    """Size, speed and score of each network compared with the teacher."""
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
        title="Comparison with the teacher",
        note="Speed of forward passes over the same held-out batches. Compressed teachers were not fine-tuned.",
        strong=[1],
    )


def _health(kept: float | None, words: str, against: Compared) -> Health:
    if against.level == "bad":
        return Health("bad", [f"The student's {against}: train longer."])
    if kept is None:
        return Health("bad", [f"The teacher's own {words} is 0 or negative."])
    if kept >= GOOD:
        return Health("good", [f"It keeps {percent(kept)} of the teacher's {words}."])
    level: Level = "watch" if kept >= FAIR else "bad"
    return Health(level, [f"It keeps {percent(kept)} of the teacher's {words}: train longer, or keep more layers."])


def _curves(records: list[dict[str, Any]], metric: str) -> Curves:
    def series(name: str, key: str) -> Series:
        found = [(record["step"], record[key]) for record in records if key in record]
        return Series(name, [x for x, _ in found], [y for _, y in found])

    charts = [
        Chart(
            "Distance to the teacher's embeddings (1 - cosine)",
            [series("training", "embedding_loss"), series("held out", "eval_embedding_loss")],
        ),
        Chart(
            "Distance to the teacher's predictions",
            [series("training", "soft_loss"), series("held out", "eval_soft_loss")],
        ),
        Chart(
            "Distance to the teacher's hidden states (1 - cosine)",
            [series("training", "hidden_loss"), series("held out", "eval_hidden_loss")],
        ),
        Chart(f"Held-out {metric.replace('_', ' ')}", [series("student", f"eval_{metric}")]),
        Chart("Learning rate", [series("learning rate", "lr")]),
        Chart("Tokens per second", [series("training", "tokens_per_second")]),
    ]
    return Curves([chart for chart in charts if not chart.is_empty()])


def _use(recipe: dict[str, Any], model: str, metric: str) -> Command:
    if metric == "cosine":
        return Command.suggest("compare texts", "similarity", model=model, texts=("a text", "another", "a third"))
    if "train" in recipe:
        return Command.suggest("use it", "predict", model=model, texts="your text")
    return Command.suggest("predict masked tokens", "fill-mask", model=model, texts=MASKED_TEXT)
