"""Published results, as reference data: the tables of the papers and leaderboards that the lectures show.

One JSON file for each benchmark, with one table or several: two versions of a table stay two tables, each with its
label. Nothing here was measured by us; whoever shows a score of ours beside these says which is which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.errors import ConfigError, InputError
from ...core.registry import unknown_name
from ...core.storage import read_json

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Score:
    """One published number; deviation: the +- printed with it; doubt: why the number is not quite certain."""

    value: float
    deviation: float | None = None
    doubt: str | None = None


@dataclass(frozen=True)
class Column:
    """What stands in a column.

    metric: the name that our own metrics use, where we have it ("entity_f1"), else words; split: the part of the data
    ("test"); unit: "per cent", where our own scores are fractions; train_size: rows of training data.
    """

    name: str
    metric: str
    split: str
    unit: str
    train_size: int | None = None


@dataclass(frozen=True)
class PublishedRow:
    """One system: column name -> its score, without the columns that the source leaves empty."""

    name: str
    scores: Mapping[str, Score]
    note: str | None = None

    @property
    def values(self) -> dict[str, float]:
        """Column name -> plain number."""
        return {column: score.value for column, score in self.scores.items()}


@dataclass(frozen=True)
class PublishedTable:
    """One table of one source.

    label: tells it from the other tables of the benchmark ("second version"); source: where it was published;
    lectures: titles of those that show it.
    """

    benchmark: str
    label: str
    title: str
    source: str
    lectures: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[PublishedRow, ...] = field(repr=False)
    notes: tuple[str, ...] = ()

    def row(self, name: str) -> PublishedRow:
        """The row of a system. Raises ConfigError naming the nearest one."""
        for row in self.rows:
            if row.name == name:
                return row
        raise ConfigError(unknown_name("system", name, [row.name for row in self.rows]))

    def column(self, name: str) -> Column:
        """A column by its name. Raises ConfigError naming the nearest one."""
        for column in self.columns:
            if column.name == name:
                return column
        raise ConfigError(unknown_name("column", name, [column.name for column in self.columns]))


def benchmarks() -> list[str]:
    """The names that `published` knows, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def published(benchmark: str) -> list[PublishedTable]:
    """The published tables of a benchmark ("glue", "squad1", ...), in the order of their appearance.

    Raises ConfigError naming the nearest known benchmark.
    """
    if benchmark not in benchmarks():
        raise ConfigError(unknown_name("benchmark", benchmark, benchmarks()))
    facts = read_json(_FOLDER / f"{benchmark}.json")
    return [_table(benchmark, table) for table in facts["tables"]]


def published_table(benchmark: str, label: str) -> PublishedTable:
    """One table of a benchmark by its label. Raises ConfigError naming the nearest one."""
    tables = {table.label: table for table in published(benchmark)}
    if label not in tables:
        raise ConfigError(unknown_name(f"table of {benchmark}", label, tables))
    return tables[label]


def _table(benchmark: str, facts: Mapping[str, Any]) -> PublishedTable:
    columns = tuple(Column(**column) for column in facts["columns"])
    rows = tuple(_row(columns, row) for row in facts["rows"])
    words = (facts["label"], facts["title"], facts["source"], tuple(facts["lectures"]))
    return PublishedTable(benchmark, *words, columns, rows, tuple(facts["notes"]))


def _row(columns: tuple[Column, ...], facts: Mapping[str, Any]) -> PublishedRow:
    cells = zip(columns, facts["scores"], strict=True)
    scores = {
        column.name: Score(**cell) if isinstance(cell, dict) else Score(cell)
        for column, cell in cells
        if cell is not None
    }
    return PublishedRow(facts["name"], scores, facts.get("note"))


# -- the figures that the sources compute ------------------------------------------------------------------------

GLUE_NINE = ("MNLI-m", "MNLI-mm", "QQP", "QNLI", "SST-2", "CoLA", "STS-B", "MRPC", "RTE")


def glue_average(scores: Mapping[str, float]) -> float:
    """The average of the GLUE tables: the mean of nine numbers, MNLI counting twice (matched and mismatched).

    scores: column name -> number, all nine in one unit; other columns are ignored. WNLI is left out, as in the BERT
    paper. Raises InputError when one of the nine is missing: the mean of fewer is not comparable.
    """
    missing = [name for name in GLUE_NINE if name not in scores]
    if missing:
        raise InputError(f"The GLUE average needs all nine scores; missing: {', '.join(missing)}.")
    return sum(scores[name] for name in GLUE_NINE) / len(GLUE_NINE)


def relative_error_reduction(before: float, after: float, perfect: float = 100.0) -> float:
    """The share of the error that went away: (after - before) / (perfect - before), a fraction.

    perfect: the best possible score in the unit of the two. Raises InputError when `before` leaves no error.
    """
    if before >= perfect:
        raise InputError(f"A score of {before:g} leaves no error below {perfect:g} that could go away.")
    return (after - before) / (perfect - before)
