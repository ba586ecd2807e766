"""Labelled text from .csv, .tsv, .jsonl and .parquet files, with every bad row reported at once.

A row is bad when it cannot be read (encoding, quoting, JSON), has too few or too many columns, or when its
text is empty or its label missing, unknown, or no number where one is needed. Bad rows are collected over
the whole file and raised together, each with file, physical line, column and reason; or skipped and
returned, if the user says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
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
    span: tuple[float, float] | None = None,
    skip_bad_rows: bool = False,
) -> Table:
    """Read labelled text.

    columns: role -> column name, or position from 0 ({"text": "body", "label": "y"}); default: the
    recognised names.
    need_label: a row without a label is bad; without it, labels are read where they are there.
    numeric: labels must be finite numbers, from the least to the greatest of `span` (None: any). labels: the only
    labels allowed (None: any).
    multi_label: a label may be several, separated by `|`, or none at all.
    where: column name -> value; rows that differ are left out, unreported ({"split": "train"}).
    skip_bad_rows: leave bad rows out, listed in `Table.skipped`, instead of raising RowErrors.

    Labels are stripped of white space, texts are kept as they are. Raises RowErrors (all bad rows),
    InputError (no such column, a column twice, nothing to read), MissingFileError, MissingExtraError.
    """
    rules = Rules(need_label, numeric, None if labels is None else frozenset(labels), multi_label, span)
    where = dict(where or {})
    records, found = _open_table(path, columns, need_label, list(where))
    faults: list[RowError] = []
    rows = list(_good_rows(records, found, where, rules, faults))
    if faults and not skip_bad_rows:
        raise RowErrors(faults)
    if not rows:
        chosen = "".join(f" with {name} = {value}" for name, value in where.items())
        raise InputError(f"{path} holds no {'good ' if faults else ''}rows{chosen}.")
    guess = HeaderGuess(found)
    for row in rows:
        guess.see(row)
    guess.refuse_header(path)
    return Table(rows, found.names, faults)


def read_texts(path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False) -> Table:
    """Read texts without labels: one text a line (.txt, `-`), or the text columns of a table.

    A blank line between texts is a bad row: outputs are matched to inputs by their order. Raises as
    `read_table`.
    """
    if file_format(path, default="txt") != "txt":
        return read_table(path, columns=columns, need_label=False, skip_bad_rows=skip_bad_rows)
    faults: list[RowError] = []
    rows = list(_good_lines(path, faults))
    if faults and not skip_bad_rows:
        raise RowErrors(faults)
    if not rows:
        raise InputError(f"{shown(path)} holds no text.")
    return Table(rows, {"text": "line"}, faults)


def scan_texts(
    path: Path | str, columns: Mapping[str, str] | None, faults: list[RowError]
) -> tuple[Columns, Iterator[Row]]:
    """One pass over what `read_texts` reads: its columns, and its good rows as they come; bad ones go to `faults`.

    No row is held; the file must be one that can be read again, since JSON lines are read for their names first.
    """
    if file_format(path, default="txt") == "txt":
        return Columns({"text": "line"}), _good_lines(path, faults)
    records, found = _open_table(path, columns, False, [], is_held=False)
    return found, _good_rows(records, found, {}, Rules(False, False, None, False), faults)


def shown(path: Path | str) -> str:
    """A path in words."""
    return "standard input" if str(path) == STDIN else str(path)


def _good_lines(path: Path | str, faults: list[RowError]) -> Iterator[Row]:
    blank: list[RowError] = []  # only those with text behind them count
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
    """The data rows of a file, and its columns: those with a role, and `others`.

    is_held: read JSON lines once and keep them, else twice: which names there are is known at the end.
    """
    kind = file_format(path)
    if kind == "txt":
        raise InputError(f"{path} is plain text: labelled text is read from .csv, .tsv, .jsonl or .parquet.")
    if kind == "parquet":
        found = with_names(parquet_columns(path), mapping, str(path), need_label, others)
        return read_records(path, kind, list(dict.fromkeys([*found.names.values(), *others]))), found
    records = read_records(path, kind)
    if kind == "jsonl":
        every: Iterable[Record] = list(records) if is_held else records
        header = list(dict.fromkeys(name for record in every for name in record.named))
        if not header:
            _refuse_unreadable(path, every if is_held else read_records(path, kind))
        rows = iter(every) if is_held else read_records(path, kind)
        return rows, with_names(header, mapping, str(path), need_label, others)
    first = next(records, None)
    if first is None or first.faults:  # the first row decides what the columns are
        _refuse_unreadable(path, [] if first is None else [first, *records])
    assert first is not None
    if is_header(first.cells, mapping):
        return records, with_header(first.cells, mapping, str(path), need_label, others)
    if others:
        raise InputError(f"{path} has no header, so no column '{others[0]}' to choose rows by.")
    return chain([first], records), without_header(first.cells, mapping, str(path), need_label)


def _refuse_unreadable(path: Path | str, records: Iterable[Record]) -> NoReturn:
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
        if reason is None and role == "label" and (name, values[role]) == ("gold_label", "-"):
            reason = "'-' is no label: the annotators did not agree"
        if reason is not None:
            faults.append(record.fault(name, reason))
    if faults:
        return None, faults
    return Row(values["text"] or "", values["text_pair"], values["label"], record.line, record.file), []


class HeaderGuess:
    """Whether the first row of a table without a known header looks like one after all.

    Its label stands nowhere else although the labels of the other rows repeat, and all its cells are single words.
    Labels are kept until one repeats.
    """

    def __init__(self, found: Columns) -> None:
        self.found = found
        self.first: Row | None = None
        self.labels: set[str | None] = set()
        self.is_open, self.has_repeat, self.num_others = found.is_guessed, False, 0

    def see(self, row: Row) -> None:
        """Take the next row into account."""
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

    def refuse_header(self, path: Path | str) -> None:
        """Raise InputError after the last row, when the first was a header."""
        if not (self.is_open and self.first is not None and self.num_others >= 2 and self.has_repeat):
            return
        cells = self._cells(self.first)
        given = ",".join(f"{role}={cell.strip()}" for role, cell in zip(self.found.names, cells, strict=False))
        places = ",".join(f"{role}={index}" for index, role in enumerate(self.found.names))
        raise InputError(
            f"The first row of {path} ({', '.join(cells)}) looks like a header with unknown names: say "
            f"--columns {given} if it is one, or --columns {places} if it is a row."
        )

    @staticmethod
    def _cells(row: Row) -> list[str]:
        return [cell for cell in (row.text, row.text_pair, row.label) if cell is not None]
