"""Labelled text from .csv, .tsv, .jsonl and .parquet files, with every bad row reported at once.

A row is bad when it cannot be read (encoding, quoting, JSON), has too few or too many columns, or when its
text is empty or its label missing, unknown, or no number where one is needed. Bad rows are collected over
the whole file and raised together, each with file, physical line, column and reason; or skipped and
returned, if the user says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NoReturn

from ..core.errors import InputError, RowError, RowErrors
from .cells import Rules, read_label, read_text
from .columns import Columns, is_header, with_header, with_names, without_header
from .files import STDIN, file_format, read_lines
from .records import Record, parquet_columns, read_records


@dataclass(frozen=True, slots=True)
class Row:
    """One example: text, second text of a pair (or None), label as text (or None), and where it stands."""

    text: str
    text_pair: str | None
    label: str | None
    line: int
    file: str


@dataclass(frozen=True)
class Table:
    """The rows of a file.

    columns: role ("text", "text_pair", "label") -> column name; skipped: the bad rows that were left out.
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
        """Number of rows left out (one row may have several faults)."""
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
    skip_bad_rows: bool = False,
) -> Table:
    """Read labelled text.

    columns: role -> column name, or position from 0 ({"text": "body", "label": "y"}); default: the
    recognised names.
    need_label: a row without a label is bad; without it, labels are read where they are there.
    numeric: labels must be finite numbers. labels: the only labels allowed (None: any).
    multi_label: a label may be several, separated by `|`, or none at all.
    where: column name -> value; rows that differ are left out, unreported ({"split": "train"}).
    skip_bad_rows: leave bad rows out, listed in `Table.skipped`, instead of raising RowErrors.

    Labels are stripped of white space, texts are kept as they are. Raises RowErrors (all bad rows),
    InputError (no such column, a column twice, nothing to read), MissingFileError, MissingExtraError.
    """
    rules = Rules(need_label, numeric, None if labels is None else frozenset(labels), multi_label)
    where = dict(where or {})
    records, found = _open_table(path, columns, need_label, list(where))
    rows: list[Row] = []
    faults: list[RowError] = []
    for record in records:
        row, bad = _read_row(record, found, where, rules)
        faults += bad
        if row is not None:
            rows.append(row)
    if faults and not skip_bad_rows:
        raise RowErrors(faults)
    if not rows:
        chosen = "".join(f" with {name} = {value}" for name, value in where.items())
        raise InputError(f"{path} holds no {'good ' if faults else ''}rows{chosen}.")
    table = Table(rows, found.names, faults)
    if found.is_guessed:
        _refuse_unknown_header(table, path)
    return table


def read_texts(path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False) -> Table:
    """Read texts without labels: one text a line (.txt, `-`), or the text columns of a table.

    A blank line between texts is a bad row: outputs are matched to inputs by their order. Raises as
    `read_table`.
    """
    if file_format(path, default="txt") != "txt":
        return read_table(path, columns=columns, need_label=False, skip_bad_rows=skip_bad_rows)
    rows: list[Row] = []
    faults: list[RowError] = []
    blank: list[RowError] = []  # only those with text behind them count
    for line in read_lines(path):
        if not line.text.strip() and line.fault is None:
            blank.append(RowError(_shown(path), line.number, None, "the line is blank"))
            continue
        faults += blank
        blank = []
        if line.fault:
            faults.append(RowError(_shown(path), line.number, None, line.fault))
        else:
            rows.append(Row(line.text, None, None, line.number, _shown(path)))
    if faults and not skip_bad_rows:
        raise RowErrors(faults)
    if not rows:
        raise InputError(f"{_shown(path)} holds no text.")
    return Table(rows, {"text": "line"}, faults)


def _shown(path: Path | str) -> str:
    return "standard input" if str(path) == STDIN else str(path)


# -- from a file to its records and columns ----------------------------------------------------------------


def _open_table(
    path: Path | str, mapping: Mapping[str, str] | None, need_label: bool, others: list[str]
) -> tuple[Iterator[Record], Columns]:
    """The data rows of a file, and its columns: those with a role, and `others`."""
    kind = file_format(path)
    if kind == "txt":
        raise InputError(f"{path} is plain text: labelled text is read from .csv, .tsv, .jsonl or .parquet.")
    if kind == "parquet":
        found = with_names(parquet_columns(path), mapping, str(path), need_label, others)
        return read_records(path, kind, list(dict.fromkeys([*found.names.values(), *others]))), found
    records = read_records(path, kind)
    if kind == "jsonl":
        every = list(records)
        header = list(dict.fromkeys(name for record in every for name in record.named))
        if not header:
            _refuse_unreadable(path, every)
        return iter(every), with_names(header, mapping, str(path), need_label, others)
    first = next(records, None)
    if first is None or first.faults:  # the first row decides what the columns are
        _refuse_unreadable(path, [] if first is None else [first, *records])
    assert first is not None
    if is_header(first.cells, mapping):
        return records, with_header(first.cells, mapping, str(path), need_label, others)
    if others:
        raise InputError(f"{path} has no header, so no column '{others[0]}' to choose rows by.")
    return chain([first], records), without_header(first.cells, mapping, str(path), need_label)


def _refuse_unreadable(path: Path | str, records: list[Record]) -> NoReturn:
    faults = [fault for record in records for fault in record.faults]
    raise RowErrors(faults) if faults else InputError(f"{path} is empty.")


def _read_row(
    record: Record, found: Columns, where: Mapping[str, str], rules: Rules
) -> tuple[Row | None, list[RowError]]:
    """The row, or None and its faults (no faults: `where` leaves it out)."""
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
        if reason is not None:
            faults.append(record.fault(name, reason))
    if faults:
        return None, faults
    return Row(values["text"] or "", values["text_pair"], values["label"], record.line, record.file), []


def _refuse_unknown_header(table: Table, path: Path | str) -> None:
    """Raise InputError when the first row of a table without a known header looks like one after all.

    Its label stands nowhere else although the labels of the other rows repeat, and all its cells are single
    words.
    """
    first, rest = table.rows[0], [row.label for row in table.rows[1:]]
    cells = [cell for cell in (first.text, first.text_pair, first.label) if cell is not None]
    looks_like_names = first.label is not None and all(cell.strip().isidentifier() for cell in cells)
    if looks_like_names and len(rest) >= 2 and first.label not in rest and len(set(rest)) < len(rest):
        given = ",".join(f"{role}={cell.strip()}" for role, cell in zip(table.columns, cells, strict=False))
        places = ",".join(f"{role}={index}" for index, role in enumerate(table.columns))
        raise InputError(
            f"The first row of {path} ({', '.join(cells)}) looks like a header with unknown names: say "
            f"--columns {given} if it is one, or --columns {places} if it is a row."
        )
