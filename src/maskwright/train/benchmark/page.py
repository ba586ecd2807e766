"""report.html of a benchmark: our numbers with every seed as a dot, and the published rows in tables of their own."""

from __future__ import annotations

import shlex
from typing import Any

from ..report import (
    Block,
    Command,
    Comparison,
    Dots,
    Facts,
    Figure,
    KeyFigures,
    NextSteps,
    Report,
    Score,
    Section,
    System,
    Table,
    WhatRan,
    write_report,
)
from ..run import RunFolder
from .results import NumberResult, Results
from .tables import (
    OWN_COLUMNS,
    average_line,
    comparable,
    dev_note,
    own_rows,
    per_cent,
    plus_minus,
    published_rows,
    published_tables,
    published_title,
    setting_words,
)


def write_page(run: RunFolder, results: Results) -> None:
    """Write report.html of what is finished so far."""
    title = f"{results.config.benchmark} with {results.config.model}"
    blocks = [
        KeyFigures(_figures(results)),
        Table(OWN_COLUMNS, [list(row) for row in own_rows(results)], title="Measured here", note=dev_note(results)),
        Dots({name: _score(number) for name, number in results.numbers.items()}, title="Every seed", unit="percent"),
        *_beside(results),
        Section("Published, not measured here", _published(results), "From the papers and leaderboards, as printed."),
        WhatRan(shlex.join(_command(run.recipe)), {key: str(value) for key, value in run.recipe.items()}, run.facts()),
        _data(results),
        Facts({part.name: setting_words(part) for part in results.parts}, title="Settings and seeds"),
        Facts(_absent(results), title="Not measured"),
        _next(results),
    ]
    write_report(run.path / "report.html", Report(title, _headline(results), None, blocks, run.facts()["started"]))


def _headline(results: Results) -> str:
    line = average_line(results)
    if results.average is not None:
        return line
    numbers = [f"{number.name} {plus_minus(number.summary)}" for number in results.numbers.values()]
    return f"{', '.join(numbers)}. {line}".strip()


def _figures(results: Results) -> list[Figure]:
    average = results.average
    if average is not None:
        return [Figure("Average of nine", plus_minus(average), note=f"best seeds {per_cent(average.best)}")]
    return [
        Figure(number.name, plus_minus(number.summary), note=f"{number.metric}, {number.split}".replace("_", " "))
        for number in list(results.numbers.values())[:6]
    ]


def _score(number: NumberResult) -> Score:
    summary = number.summary
    return Score(summary.mean, summary.deviation if len(summary.seeds) > 1 else None, summary.seeds)


def _beside(results: Results) -> list[Block]:
    """Ours and published systems on one axis, where a benchmark is one number; GLUE's nine stand in the tables."""
    if results.config.benchmark == "glue":
        return []
    blocks: list[Block] = []
    for number in results.numbers.values():
        systems = [System("this run", {number.metric: _score(number)}, seeds=len(number.summary.seeds))]
        for table in published_tables(results):
            column = comparable(number, table)
            found = [row for row in table.rows if column in row.scores]
            label = table.label
            systems += [
                System(row.name, {number.metric: row.scores[column].value / 100}, note=label, source="published")  # type: ignore[index]
                for row in found
            ]
        if len(systems) > 1:
            note = f"Ours on {number.rows:,} {number.split} rows; the published systems had the whole benchmark."
            blocks.append(
                Comparison(systems, title=f"{number.name} beside published systems", note=note, unit="percent")
            )
    return blocks


def _published(results: Results) -> list[Block]:
    return [
        Table(
            ["system", *(column.name for column in table.columns)],
            published_rows(table),
            title=published_title(table),
            note=f"Source: {table.source}. {' '.join(table.notes)}".strip(),
        )
        for table in published_tables(results)
    ]


def _data(results: Results) -> Facts:
    facts: dict[str, Any] = {}
    for part in results.parts:
        for split, one in part.facts["splits"].items():
            left_out = one["skipped"] + one["without_gold"]
            capped = [f"drawn from {one['rows_in_file']:,}"] * (one["rows"] < one["rows_in_file"])
            remark = ", ".join(capped + [f"{left_out:,} left out"] * bool(left_out))
            facts[f"{part.name}, {split.replace('_', ' ')}"] = (one["rows"], remark) if remark else one["rows"]
    return Facts(facts, title="Rows")


def _absent(results: Results) -> dict[str, str]:
    return dict(results.missing) | dict.fromkeys(results.waiting, "not finished yet")


def _next(results: Results) -> NextSteps:
    """All seeds of each part as one model; with one seed, its own score."""
    commands = []
    for part in results.parts:
        dev = f"{part.facts['folder']}/dev.jsonl"
        if len(part.models) > 1:
            commands.append(Command(shlex.join(["maskwright", "ensemble", *part.models, dev]), f"{part.name}: as one"))
        else:
            words = shlex.join(["maskwright", "evaluate", part.models[0], dev, "--errors", "10"])
            commands.append(Command(words, f"{part.name}: its errors"))
    return NextSteps(commands)


def _command(recipe: dict[str, Any]) -> list[str]:
    words = ["maskwright", "bench-task", recipe["benchmark"]]
    names = ("data", "model", "epochs", "lr", "batch_size", "max_length", "max_train_rows", "seeds", "seed")
    for name in names:
        if recipe.get(name):
            words += [f"--{name.replace('_', '-')}", str(recipe[name])]
    words += ["--tasks", ",".join(recipe["tasks"])] if recipe.get("tasks") else []
    words += [f"--{name.replace('_', '-')}" for name in ("grid", "submission", "skip_bad_rows") if recipe.get(name)]
    return [*words, "-o", recipe["output"]]
