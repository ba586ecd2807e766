"""A benchmark's scores as text tables, with the published scores in separate tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...tasks.evaluation.published import PublishedTable, published
from .parts import PARTS
from .results import NumberResult, PartResult, Results, Summary

OWN_COLUMNS = ("number", "metric", "mean ± deviation", "best on dev", "seeds", "train rows", "rows")
_DEV = (
    "Scores in percent. The best epoch of each seed and the best seed are chosen on dev, so dev scores are optimistic."
)
_TEST = " The published numbers of GLUE are of its test sets."


class OwnRow(NamedTuple):
    """One row of the table of measured scores, as text."""

    number: str
    metric: str
    score: str
    best: str
    seeds: int
    train_rows: str
    rows: str


def own_rows(results: Results) -> list[OwnRow]:
    """A row for each metric of each score, the main metric first."""
    return [
        OwnRow(
            number.name,
            metric.replace("_", " "),
            plus_minus(summary),
            per_cent(summary.best),
            len(part.seeds),
            _train_rows(part),
            f"{number.rows:,} {number.split.replace('_', ' ')}",
        )
        for part in results.parts
        for number in part.numbers
        for metric, summary in number.metrics.items()
    ]


def dev_note(results: Results) -> str:
    """The note on dev scores."""
    return _DEV + _TEST * (results.config.benchmark == "glue")


def average_line(results: Results) -> str:
    """The average of the nine GLUE scores, or why there is none; "" for other benchmarks."""
    if results.config.benchmark != "glue":
        return ""
    average = results.average
    if average is None:
        return f"Average: not available, because some of the nine scores are missing ({', '.join(results.lacking)})."
    return f"Average of the nine scores: {plus_minus(average)}; of the best seeds: {per_cent(average.best)}."


def facts_lines(results: Results) -> list[str]:
    """Model, data, settings, seeds, and missing scores."""
    config = results.config
    lines = [f"Model: {config.model}", f"Data: {config.data}"]
    if config.max_train_rows:
        lines.append(f"At most {config.max_train_rows:,} training rows per part.")
    lines += [f"{part.name}: {setting_words(part)}." for part in results.parts]
    lines += [f"{name} is not measured: {reason}." for name, reason in results.missing.items()]
    if results.waiting:
        lines.append(f"Not finished yet: {', '.join(results.waiting)}.")
    return lines


def setting_words(part: PartResult) -> str:
    """Setting and seeds of a part."""
    tried = f", the best on dev of {len(part.tried)} settings" if part.tried else ""
    seeds = ", ".join(map(str, part.seeds))
    return f"{part.setting.words}{tried}; seeds {seeds}; best on dev: seed {part.best_seed}"


def published_tables(results: Results) -> list[PublishedTable]:
    """All published tables of the measured parts."""
    done = {part.name for part in results.parts}
    names = dict.fromkeys(
        part.published for part in PARTS[results.config.benchmark] if part.name in done and part.published
    )
    return [table for name in names for table in published(name)]


def published_rows(table: PublishedTable) -> list[list[str]]:
    """System and scores, with the same number of decimals in each column, "-" for missing scores."""
    columns = [[row.values.get(column.name) for row in table.rows] for column in table.columns]
    printed = [[_printed(value, _decimals(values)) for value in values] for values in columns]
    return [[row.name, *cells] for row, *cells in zip(table.rows, *printed, strict=True)]


def published_title(table: PublishedTable) -> str:
    """The title of a published table."""
    return f"Published, not measured here: {table.title} ({table.label})"


def markdown(results: Results) -> str:
    """All results as Markdown."""
    parts = [
        f"# {results.config.benchmark}: measured here",
        _table(OWN_COLUMNS, [list(row) for row in own_rows(results)]),
    ]
    parts += [average_line(results)] if average_line(results) else []
    parts += [dev_note(results), "\n".join(f"- {line}" for line in facts_lines(results))]
    for table in published_tables(results):
        columns = ["system", *(column.name for column in table.columns)]
        parts += [f"## {published_title(table)}", _table(columns, published_rows(table)), f"Source: {table.source}."]
    return "\n\n".join(parts) + "\n"


def comparable(number: NumberResult, table: PublishedTable) -> str | None:
    """The column of a published table with the same score and main metric; None if there is none."""
    for column in table.columns:
        same_name = column.name == number.name
        if column.metric == number.metric and (
            same_name or (table.benchmark != "glue" and column.split == number.split)
        ):
            return column.name
    return None


def plus_minus(summary: Summary) -> str:
    """84.3 ± 0.4 in percent; without the deviation for one seed."""
    if len(summary.seeds) < 2:
        return per_cent(summary.mean)
    return f"{per_cent(summary.mean)} ± {per_cent(summary.deviation)}"


def per_cent(value: float) -> str:
    """0.8432 -> 84.3."""
    return f"{100 * value:.1f}"


def _train_rows(part: PartResult) -> str:
    train = part.facts["splits"]["train"]
    rows, whole = train["rows"], train["rows_in_file"]
    return f"{rows:,}" if rows == whole else f"{rows:,} of {whole:,}"


def _decimals(values: Sequence[float | None]) -> int:
    """The maximum number of decimals."""
    return max((len(repr(float(value)).partition(".")[2]) for value in values if value is not None), default=0)


def _printed(value: float | None, decimals: int) -> str:
    return "-" if value is None else f"{value:.{decimals}f}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', '/') for cell in line)} |" for line in lines)
