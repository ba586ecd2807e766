"""report.html of a benchmark: measured scores with every seed, and published scores in separate tables."""

from __future__ import annotations

from typing import Any

from ...core.options import command_line
from ...report import (
    Block,
    Command,
    Comparison,
    Dots,
    Facts,
    Figure,
    KeyFigures,
    NextSteps,
    Report,
    RunMetadata,
    Score,
    Section,
    System,
    Table,
    write_report,
)
from ...train.run import RunFolder
from .config import BenchmarkConfig
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
    """Write report.html of the finished parts."""
    title = f"{results.config.benchmark} with {results.config.model}"
    blocks = [
        KeyFigures(_figures(results)),
        Table(OWN_COLUMNS, [list(row) for row in own_rows(results)], title="Measured here", note=dev_note(results)),
        Dots({name: _score(number) for name, number in results.numbers.items()}, title="Every seed", unit="percent"),
        *_beside(results),
        Section("Published, not measured here", _published(results), "From papers and leaderboards, as published."),
        RunMetadata(
            command_line(BenchmarkConfig, run.recipe),
            {key: str(value) for key, value in run.recipe.items()},
            run.facts(),
        ),
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
    """Measured and published systems on one axis, except for GLUE, whose scores are in the tables."""
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
                System(row.name, {number.metric: row.scores[column].value / 100}, note=label, source="published")  # type: ignore[index]  # a name
                for row in found
            ]
        if len(systems) > 1:
            note = f"This run: {number.rows:,} {number.split} rows; published systems: the full benchmark."
            blocks.append(
                Comparison(systems, title=f"{number.name} compared with published systems", note=note, unit="percent")
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
            capped = [f"sampled from {one['rows_in_file']:,}"] * (one["rows"] < one["rows_in_file"])
            remark = ", ".join(capped + [f"{left_out:,} skipped"] * bool(left_out))
            facts[f"{part.name}, {split.replace('_', ' ')}"] = (one["rows"], remark) if remark else one["rows"]
    return Facts(facts, title="Rows")


def _absent(results: Results) -> dict[str, str]:
    return dict(results.missing) | dict.fromkeys(results.waiting, "not finished yet")


def _next(results: Results) -> NextSteps:
    """Commands for an ensemble of all seeds of each part; with one seed, for its errors."""
    commands = []
    for part in results.parts:
        dev = f"{part.facts['folder']}/dev.jsonl"
        if len(part.models) > 1:
            commands.append(Command.suggest(f"{part.name}: ensemble", "ensemble", models=part.models, file=dev))
        else:
            about = f"{part.name}: its errors"
            commands.append(Command.suggest(about, "evaluate", model=part.models[0], file=dev, errors=10))
    return NextSteps(commands)
