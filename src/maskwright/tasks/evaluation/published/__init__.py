"""Published results as reference data: tables of the papers and leaderboards shown in the lectures.

One JSON file per benchmark with one or more tables; versions of a table are separate tables with their own labels. None
of these numbers was measured by this project, and reports mark them as published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....core.errors import ConfigError, InputError
from ....core.registry import unknown_name
from ....core.storage import read_json

_FOLDER = Path(__file__).parent
GLUE_NINE = ("MNLI-m", "MNLI-mm", "QQP", "QNLI", "SST-2", "CoLA", "STS-B", "MRPC", "RTE")


@dataclass(frozen=True)
class Score:
    """One published number. deviation: its published deviation (+-); doubt: why the number is uncertain."""

    value: float
    deviation: float | None = None
    doubt: str | None = None


@dataclass(frozen=True)
class Column:
    """One column of a table.

    metric: name of the corresponding metric of this package ("entity_f1"), otherwise a description; split: data split
    ("test"); unit: unit of the numbers, such as "per cent"; train_size: number of training rows.
    """

    name: str
    metric: str
    split: str
    unit: str
    train_size: int | None = None


@dataclass(frozen=True)
class PublishedRow:
    """One system: column name -> score, without columns that are empty in the source."""

    name: str
    scores: Mapping[str, Score]
    note: str | None = None

    @property
    def values(self) -> dict[str, float]:
        return {column: score.value for column, score in self.scores.items()}


@dataclass(frozen=True)
class PublishedTable:
    """One table of one source.

    label: identifies the table within the benchmark ("second version"); source: where it was published; lectures:
    titles of the lectures that show it.
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
        """The row of a system. Raises ConfigError that suggests the nearest name."""
        return _named("system", name, {row.name: row for row in self.rows})

    def column(self, name: str) -> Column:
        """A column by name. Raises ConfigError that suggests the nearest name."""
        return _named("column", name, {column.name: column for column in self.columns})


def _named(kind: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise ConfigError(unknown_name(kind, name, known))
    return known[name]


def benchmarks() -> list[str]:
    """The names that `published` knows, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def published(benchmark: str) -> list[PublishedTable]:
    """The published tables of a benchmark ("glue", "squad1", ...), in order of appearance.

    Raises ConfigError that suggests the nearest benchmark.
    """
    _named("benchmark", benchmark, dict.fromkeys(benchmarks()))
    return [_table(benchmark, table) for table in read_json(_FOLDER / f"{benchmark}.json")["tables"]]


def published_table(benchmark: str, label: str) -> PublishedTable:
    """One table of a benchmark by label. Raises ConfigError that suggests the nearest label."""
    table: PublishedTable = _named(f"table of {benchmark}", label, {one.label: one for one in published(benchmark)})
    return table


def _table(benchmark: str, facts: Mapping[str, Any]) -> PublishedTable:
    columns = tuple(Column(**column) for column in facts["columns"])
    rows = []
    for row in facts["rows"]:
        cells = zip(columns, row["scores"], strict=True)
        scores = {
            column.name: Score(**cell) if isinstance(cell, dict) else Score(cell)
            for column, cell in cells
            if cell is not None
        }
        rows.append(PublishedRow(row["name"], scores, row.get("note")))
    words = (facts["label"], facts["title"], facts["source"], tuple(facts["lectures"]))
    return PublishedTable(benchmark, *words, columns, tuple(rows), tuple(facts["notes"]))


def glue_average(scores: Mapping[str, float]) -> float:
    """The average of the GLUE tables: the mean of nine numbers, MNLI counting twice (matched and mismatched).

    scores: column name -> number, all in the same unit; other columns are ignored. WNLI is excluded, as in the BERT
    paper. Raises InputError if one of the nine is missing.
    """
    missing = [name for name in GLUE_NINE if name not in scores]
    if missing:
        raise InputError(f"The GLUE average needs all nine scores; missing: {', '.join(missing)}.")
    return sum(scores[name] for name in GLUE_NINE) / len(GLUE_NINE)


def relative_error_reduction(before: float, after: float, perfect: float = 100.0) -> float:
    """Relative error reduction: (after - before) / (perfect - before), a fraction.

    perfect: the best possible score in the same unit. Raises InputError if `before` is not below it.
    """
    if before >= perfect:
        raise InputError(f"A score of {before:g} leaves no error to reduce: it must be below {perfect:g}.")
    return (after - before) / (perfect - before)
