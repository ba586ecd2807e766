"""Reads labeled text from .csv, .tsv, .jsonl and .parquet files, and reports all bad rows at once.

A row is bad if it cannot be parsed (encoding, quoting, JSON), has too few or too many columns, or if its text is empty
or its label missing, unknown, or not a number where one is required. Bad rows are collected over the whole file and
raised together, each with file, physical line, column and reason; or skipped and returned on request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NoReturn

from ...core.errors import InputError, RowError, RowErrors
from ..formats.cells import Rules, read_label, read_text
from ..formats.columns import Columns, is_header, with_header, with_names, without_header
from ..formats.files import STDIN, file_format, read_lines
from ..formats.records import Record, parquet_columns, read_records


@dataclass(frozen=True, slots=True)
class Row:
    """One example: text, second text of a pair (or None), label as text (or None), and its location."""

    text: str
    text_pair: str | None
    label: str | None
    line: int
    file: str


@dataclass(frozen=True)
class Table:
    """The rows of a file.

    columns: role ("text", "text_pair", "label") -> column name; skipped: errors of skipped rows.
    """

    rows: list[Row]
    columns: dict[str, str]
    skipped: list[RowError] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def has_label(self) -> bool:
        """Whether the file has a label column."""
        return "label" in self.columns

    @property
    def has_pair(self) -> bool:
        """Whether each example is a pair of texts."""
        return "text_pair" in self.columns

    @property
    def num_skipped(self) -> int:
        """Number of skipped rows (a row may have several errors)."""
        return len({(error.file, error.line) for error in self.skipped})


def read_table(
    path: Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    need_label: bool = True,
    numeric: bool = False,
    labels: Collection[str] | None = None,
    multi_label: bool = False,
    where: Mapping[str, str] | None = None,
    span: tuple[float, float] | None = None,
    skip_bad_rows: bool = False,
) -> Table:
    """Read labeled text.

    Labels are stripped of whitespace; texts are kept unchanged.

    Args:
        path: File to read.
        columns: Role -> column name or position from 0 ({"text": "body", "label": "y"}); default: recognized names.
        need_label: A row without a label is bad; otherwise labels are read where present.
        numeric: Labels must be finite numbers within `span` (minimum, maximum; None: any).
        labels: Allowed labels (None: any).
        multi_label: Zero or more labels separated by `|`.
        where: Column name -> value ({"split": "train"}); other rows are dropped without being reported.
        skip_bad_rows: Skip bad rows and list them in `Table.skipped` instead of raising RowErrors.

    Raises:
        RowErrors: all bad rows.
        InputError: missing or duplicate column, or no rows.
        MissingFileError, MissingExtraError: no such file, or it needs an optional dependency.
    """
    rules = Rules(need_label, numeric, None if labels is None else frozenset(labels), multi_label, span)
    where = dict(where or {})
    records, found = _open_table(path, columns, need_label, list(where))
    faults: list[RowError] = []
    rows = list(_good_rows(records, found, where, rules, faults))
    if faults and not skip_bad_rows:
        raise RowErrors(faults, len(rows))
    if not rows:
        chosen = "".join(f" with {name} = {value}" for name, value in where.items())
        raise InputError(f"{path} contains no {'valid ' if faults else ''}rows{chosen}.")
    guess = HeaderDetector(found)
    for row in rows:
        guess.see(row)
    guess.reject_header(path)
    return Table(rows, found.names, faults)


def read_texts(path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False) -> Table:
    """Read texts without labels: one per line (.txt, `-`), or the text columns of a table.

    A blank line between texts is a bad row, because outputs are matched to inputs by order. Raises as `read_table`.
    """
    if file_format(path, default="txt") != "txt":
        return read_table(path, columns=columns, need_label=False, skip_bad_rows=skip_bad_rows)
    faults: list[RowError] = []
    rows = list(_good_lines(path, faults))
    if faults and not skip_bad_rows:
        raise RowErrors(faults, len(rows))
    if not rows:
        raise InputError(f"{shown(path)} contains no text.")
    return Table(rows, {"text": "line"}, faults)


def scan_texts(
    path: Path | str, columns: Mapping[str, str] | None, faults: list[RowError]
) -> tuple[Columns, Iterator[Row]]:
    """Scan what `read_texts` reads: returns the columns and an iterator of valid rows; errors are added to `faults`.

    Rows are not kept in memory. The file must be re-readable, because JSON lines are first scanned for their names.
    """
    if file_format(path, default="txt") == "txt":
        return Columns({"text": "line"}), _good_lines(path, faults)
    records, found = _open_table(path, columns, False, [], is_held=False)
    return found, _good_rows(records, found, {}, Rules(False, False, None, False), faults)


def shown(path: Path | str) -> str:
    """Formats a path for a message."""
    return "standard input" if str(path) == STDIN else str(path)


def _good_lines(path: Path | str, faults: list[RowError]) -> Iterator[Row]:
    blank: list[RowError] = []  # errors only if text follows
    for line in read_lines(path):
        if not line.text.strip() and line.fault is None:
            blank.append(RowError(shown(path), line.number, None, "the line is blank"))
            continue
        faults += blank
        blank = []
        if line.fault:
            faults.append(RowError(shown(path), line.number, None, line.fault))
        else:
            yield Row(line.text, None, None, line.number, shown(path))


def _good_rows(
    records: Iterator[Record], found: Columns, where: Mapping[str, str], rules: Rules, faults: list[RowError]
) -> Iterator[Row]:
    for record in records:
        row, bad = _read_row(record, found, where, rules)
        faults += bad
        if row is not None:
            yield row


# -- from a file to its records and columns ----------------------------------------------------------------


def _open_table(
    path: Path | str, mapping: Mapping[str, str] | None, need_label: bool, others: list[str], is_held: bool = True
) -> tuple[Iterator[Record], Columns]:
    """Returns the data rows of a file and its columns: those with a role, and `others`.

    is_held: read JSON lines once and keep them, instead of twice; all names are only known at the end.
    """
    kind = file_format(path)
    if kind == "txt":
        raise InputError(f"{path} is plain text: labeled text is read from .csv, .tsv, .jsonl or .parquet.")
    if kind == "parquet":
        found = with_names(parquet_columns(path), mapping, str(path), need_label, others)
        return read_records(path, kind, list(dict.fromkeys([*found.names.values(), *others]))), found
    records = read_records(path, kind)
    if kind == "jsonl":
        every: Iterable[Record] = list(records) if is_held else records
        header = list(dict.fromkeys(name for record in every for name in record.named))
        if not header:
            _reject_unreadable(path, every if is_held else read_records(path, kind))
        rows = iter(every) if is_held else read_records(path, kind)
        return rows, with_names(header, mapping, str(path), need_label, others)
    first = next(records, None)
    if first is None or first.faults:  # the first row determines the columns
        _reject_unreadable(path, [] if first is None else [first, *records])
    assert first is not None
    if is_header(first.cells, mapping):
        return records, with_header(first.cells, mapping, str(path), need_label, others)
    if others:
        raise InputError(f"{path} has no header, so no column '{others[0]}' to filter rows by.")
    return chain([first], records), without_header(first.cells, mapping, str(path), need_label)


def _reject_unreadable(path: Path | str, records: Iterable[Record]) -> NoReturn:
    faults = [fault for record in records for fault in record.faults]
    raise RowErrors(faults) if faults else InputError(f"{path} is empty.")


def _read_row(
    record: Record, found: Columns, where: Mapping[str, str], rules: Rules
) -> tuple[Row | None, list[RowError]]:
    """Returns the row, or None and its errors (no errors if excluded by `where`)."""
    if record.faults:
        return None, list(record.faults)
    count = len(record.cells)
    if count != found.width:
        noun = "column" if count == 1 else "columns"
        return None, [record.fault(None, f"has {count} {noun}, not {found.width}")]
    if any(str(found.cell(record, name)) != value for name, value in where.items()):
        return None, []
    faults: list[RowError] = []
    values: dict[str, str | None] = {"text_pair": None, "label": None}
    for role, name in found.names.items():
        cell = found.cell(record, name)
        values[role], reason = read_label(cell, rules) if role == "label" else read_text(cell)
        if reason is None and role == "label" and (name, values[role]) == ("gold_label", "-"):
            reason = "'-' is not a label: the annotators did not agree"
        if reason is not None:
            faults.append(record.fault(name, reason))
    if faults:
        return None, faults
    return Row(values["text"] or "", values["text_pair"], values["label"], record.line, record.file), []


class HeaderDetector:
    """Detects a header with unrecognized names in the first row of a table.

    The row is a header if its label occurs nowhere else while other labels repeat, and all its cells are single words.
    Labels are kept until one repeats.
    """

    def __init__(self, found: Columns) -> None:
        self.found = found
        self.first: Row | None = None
        self.labels: set[str | None] = set()
        self.is_open, self.has_repeat, self.num_others = found.is_inferred, False, 0

    def see(self, row: Row) -> None:
        """Process the next row."""
        if not self.is_open:
            return
        if self.first is None:
            self.first = row
            self.is_open = row.label is not None and all(cell.strip().isidentifier() for cell in self._cells(row))
            return
        self.num_others += 1
        self.is_open = row.label != self.first.label
        self.has_repeat = self.has_repeat or row.label in self.labels
        if self.has_repeat:
            self.labels.clear()
        else:
            self.labels.add(row.label)

    def reject_header(self, path: Path | str) -> None:
        """Raise InputError after the last row if the first was a header."""
        if not (self.is_open and self.first is not None and self.num_others >= 2 and self.has_repeat):
            return
        cells = self._cells(self.first)
        given = ",".join(f"{role}={cell.strip()}" for role, cell in zip(self.found.names, cells, strict=False))
        places = ",".join(f"{role}={index}" for index, role in enumerate(self.found.names))
        raise InputError(
            f"The first row of {path} ({', '.join(cells)}) looks like a header with unrecognized names: use --columns "
            f"{given} if it is a header, or --columns {places} if it is data."
        )

    @staticmethod
    def _cells(row: Row) -> list[str]:
        return [cell for cell in (row.text, row.text_pair, row.label) if cell is not None]
