"""Reads labeled text from .csv, .tsv, .jsonl and .parquet files, and reports all bad rows at once.

A row is bad if it cannot be parsed (encoding, quoting, JSON), has too few or too many columns, or if its text is empty
or its label missing, unknown, or not a number where one is required. Bad rows are collected over the whole file and
raised together, each with file, physical line, column and reason; or skipped and returned on request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import NoReturn

from ...core.errors import InputError, RowError, RowErrors
from ...core.progress import note
from ..annotations.formats import annotation_format
from ..annotations.reader import find_annotations
from ..formats.cells import Rules, read_label, read_text
from ..formats.columns import (
    Columns,
    Flags,
    as_bit,
    is_header,
    is_label_first,
    with_header,
    with_names,
    without_header,
)
from ..formats.dialect import Dialect
from ..formats.fasttext import COLUMNS, is_fasttext, read_fasttext
from ..formats.files import STDIN, file_format, read_lines
from ..formats.label_columns import LabelColumn, LabelForm
from ..formats.records import Record, parquet_columns, read_records

_ROWS_SEEN = 1000  # which show what the columns are
_LABELS_KEPT = 10_000  # different labels whose cells are read once


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

    columns: role ("text", "text_pair", "label") -> column name; skipped: errors of skipped rows; form: how the labels
    are written; groups: line -> value of the group column, {} without one.
    """

    rows: list[Row]
    columns: dict[str, str]
    skipped: list[RowError] = field(default_factory=list)
    form: LabelForm = field(default_factory=LabelForm)
    groups: dict[int, str] = field(default_factory=dict, repr=False)

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
    multi_label: bool | None = False,
    like: Table | None = None,
    is_text: bool = False,
    where: Mapping[str, str] | None = None,
    span: tuple[float, float] | None = None,
    skip_bad_rows: bool = False,
) -> Table:
    """Read labeled text, and say in one line each what was detected: separators, quotes, lists of labels.

    Labels are stripped of whitespace, and written in one spelling per class (`cells.one_spelling`); texts are kept
    unchanged.

    Args:
        path: File to read.
        columns: Role -> column name or position from 0 ({"text": "body", "label": "y"}); default: recognized names.
        need_label: A row without a label is bad; otherwise labels are read where present.
        numeric: Labels must be finite numbers within `span` (minimum, maximum; None: any).
        labels: Allowed labels (None: any).
        multi_label: Zero or more labels in a list, separated by `|` or as the column shows, or in columns of 0 and 1;
            None: as the data has it.
        like: Table of training rows, whose form of labels these have too.
        is_text: Labels are texts, and kept unchanged as well.
        where: Column name -> value ({"split": "train"}); other rows are dropped without being reported.
        skip_bad_rows: Skip bad rows and list them in `Table.skipped` instead of raising RowErrors.

    Raises:
        RowErrors: all bad rows.
        InputError: missing or duplicate column, or no rows.
        MissingFileError, MissingExtraError: no such file, or it needs an optional dependency.
    """
    rules = Rules(need_label, numeric, None, multi_label, span, is_text)
    where = dict(where or {})
    records, found = _open_table(
        path, columns, need_label, list(where), multi_label=False if numeric else multi_label, labels=labels,
        may_flip=not is_text,
    )  # fmt: skip
    faults: list[RowError] = []
    groups: dict[int, str] = {}
    rows = list(_good_rows(records, found, where, rules, faults, groups))
    form = LabelForm()
    if not (numeric or is_text):
        known = None if labels is None else frozenset(labels)
        column = LabelColumn(
            str(path), multi_label, known, found.classes, None if like is None else like.form, need_label, found.remarks
        )
        rows, form = _settled(rows, column, found.names.get("label"), faults)
    for remark in found.remarks:
        note(remark)
    if faults and not (skip_bad_rows and rows):
        raise RowErrors(faults, len(rows))
    if not rows:
        chosen = "".join(f" with {name} = {value}" for name, value in where.items())
        raise InputError(f"{path} contains no rows{chosen}.")
    guess = HeaderDetector(found)
    for row in rows:
        guess.see(row)
    guess.reject_header(path)
    return Table(rows, found.names, faults, form, groups)


def _settled(
    rows: list[Row], column: LabelColumn, name: str | None, faults: list[RowError]
) -> tuple[list[Row], LabelForm]:
    """Returns the rows with the labels that the whole column shows; adds the errors of others."""
    form, answers = column.settle({row.label for row in rows if row.label is not None})
    if form.multi_label:
        faults[:] = [
            replace(fault, reason=f"{fault.reason}: write [] for a row without labels")
            if fault.reason == "the label is missing"
            else fault
            for fault in faults
        ]
    if not answers:
        return rows, form
    good = []
    for row in rows:
        label, reason = answers.get(row.label, (row.label, None)) if row.label is not None else (None, None)
        if reason is not None:
            faults.append(RowError(row.file, row.line, name, reason))
        else:
            good.append(Row(row.text, row.text_pair, label, row.line, row.file))
    faults.sort(key=lambda fault: fault.line)
    return good, form


def read_texts(
    path: Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    label_is_text: bool = False,
) -> Table:
    """Read texts without labels: one per line (.txt, `-`), or the text columns of a table.

    A blank line between texts is a bad row, because outputs are matched to inputs by order. label_is_text: labels are
    texts too, and without a header the last column. Raises as `read_table`.
    """
    if not is_lines(path):
        return read_table(
            path,
            columns=columns,
            need_label=False,
            multi_label=None,
            is_text=label_is_text,
            skip_bad_rows=skip_bad_rows,
        )
    faults: list[RowError] = []
    rows = list(_good_lines(path, faults))
    if faults and not (skip_bad_rows and rows):
        raise RowErrors(faults, len(rows))
    if not rows:
        raise InputError(f"{shown(path)} contains no text.")
    return Table(rows, {"text": "line"}, faults)


def scan_texts(
    path: Path | str, columns: Mapping[str, str] | None, faults: list[RowError], *, need_label: bool = False
) -> tuple[Columns, Iterator[Row]]:
    """Scan what `read_texts` reads: returns the columns and an iterator of valid rows; errors are added to `faults`.

    need_label: leave out the texts of an annotation file that nobody labeled. Rows are not kept in memory. The file
    must be re-readable, because JSON lines are first scanned for their names.
    """
    if is_lines(path):
        return Columns({"text": "line"}), _good_lines(path, faults)
    records, found = _open_table(path, columns, need_label, [], is_held=False, multi_label=None)
    return found, _good_rows(records, found, {}, Rules(False, False, None, None), faults)


def is_lines(path: Path | str) -> bool:
    """Whether each line of a file is a text, because it is no table by its name, has no labels of fastText and is
    no annotation file.
    """
    return file_format(path, default="txt") == "txt" and not is_fasttext(path) and annotation_format(path) is None


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
    records: Iterator[Record],
    found: Columns,
    where: Mapping[str, str],
    rules: Rules,
    faults: list[RowError],
    groups: dict[int, str] | None = None,
) -> Iterator[Row]:
    read: dict[str, str] = {}  # cell -> label
    for record in records:
        row, bad = _read_row(record, found, where, rules, read)
        faults += bad
        if row is not None:
            if found.group is not None and groups is not None:
                groups[row.line] = str(found.cell(record, found.group))
            yield row


# -- from a file to its records and columns ----------------------------------------------------------------


def _open_table(
    path: Path | str,
    mapping: Mapping[str, str] | None,
    need_label: bool,
    others: list[str],
    *,
    is_held: bool = True,
    multi_label: bool | None = False,
    labels: Collection[str] | None = None,
    may_flip: bool = True,
) -> tuple[Iterator[Record], Columns]:
    """Returns the data rows of a file and its columns: those with a role, and `others`.

    is_held: read JSON lines once and keep them, instead of twice; all names are only known at the end. multi_label,
    labels: see `columns.Flags`; may_flip: without a header, the label may be in the first column. The remarks of the
    columns are complete when all rows are read.
    """
    annotated = find_annotations(path, mapping)
    if annotated is not None:
        records = annotated.records(need_label=need_label, multi_label=multi_label if need_label else None)
        return records, Columns({"text": "text", "label": "label"})
    if is_fasttext(path):
        return read_fasttext(path), with_names(COLUMNS, mapping, str(path), need_label, others)
    kind = file_format(path)
    if kind == "txt":
        raise InputError(f"{path} is plain text: labeled text is read from .csv, .tsv, .jsonl or .parquet.")
    dialect = Dialect()
    seen: list[Record] = []
    flags = Flags(lambda: _flag_columns(seen), multi_label, labels)
    if kind == "parquet":
        names = parquet_columns(path)
        flags = replace(flags, find=lambda: _flag_columns(list(islice(read_records(path, kind), _ROWS_SEEN))))
        found = with_names(names, mapping, str(path), need_label, others, flags)
        return read_records(path, kind, list(dict.fromkeys([*found.used, *others]))), found
    records = read_records(path, kind, dialect=dialect)
    if kind == "jsonl":
        every: Iterable[Record] = list(records) if is_held else records
        header = list(dict.fromkeys(name for record in every for name in record.named))
        if not header:
            _reject_unreadable(path, every if is_held else read_records(path, kind))
        seen += islice(every, _ROWS_SEEN) if is_held else ()
        rows = iter(every) if is_held else read_records(path, kind)
        return rows, with_names(header, mapping, str(path), need_label, others, flags)
    first = next(records, None)
    if first is None or first.faults:  # the first row determines the columns
        _reject_unreadable(path, [] if first is None else [first, *records])
    assert first is not None
    if is_header(first.cells, mapping):
        plain = [cell.strip() for cell in first.cells]

        def find_flags() -> list[str]:
            seen.extend(islice(records, _ROWS_SEEN))
            return _flag_columns([replace(one, named=dict(zip(plain, one.cells, strict=False))) for one in seen])

        flags = replace(flags, find=find_flags)
        found = with_header(first.cells, mapping, str(path), need_label, others, flags)
    elif others:
        raise InputError(f"{path} has no header, so no column '{others[0]}' to filter rows by.")
    else:
        seen += [first, *(islice(records, _ROWS_SEEN) if may_flip and not mapping else ())]
        is_first = may_flip and is_label_first([one.cells for one in seen if one.cells])
        found = without_header(first.cells, mapping, str(path), need_label, is_first)
    records = chain(seen, records)
    dialect.remarks += found.remarks
    return records, replace(found, remarks=dialect.remarks)


def _flag_columns(records: Sequence[Record]) -> list[str]:
    """The names of the columns that hold 0 or 1 in all rows, and both."""
    names = dict.fromkeys(name for record in records for name in record.named)
    values = {name: {as_bit(record.named.get(name)) for record in records if not record.faults} for name in names}
    return [name for name, found in values.items() if None not in found and True in found]


def _reject_unreadable(path: Path | str, records: Iterable[Record]) -> NoReturn:
    faults = [fault for record in records for fault in record.faults]
    raise RowErrors(faults) if faults else InputError(f"{path} is empty.")


def _read_row(
    record: Record, found: Columns, where: Mapping[str, str], rules: Rules, read: dict[str, str]
) -> tuple[Row | None, list[RowError]]:
    """Returns the row, or None and its errors (no errors if excluded by `where`). read: labels of cells read before."""
    if record.faults:
        return None, list(record.faults)
    count = len(record.cells)
    if count != found.width:
        noun = "column" if count == 1 else "columns"
        return None, [record.fault(None, f"has {count} {noun}, not {found.width}")]
    if where and any(str(found.cell(record, name)) != value for name, value in where.items()):
        return None, []
    faults: list[RowError] = []
    values: dict[str, str | None] = {"text_pair": None, "label": None}
    for role, name in found.names.items():
        if role == "label":
            values[role], reason = _read_label(record, found, rules, read)
        else:
            values[role], reason = read_text(found.cell(record, name))
        if reason is not None:
            faults.append(record.fault(name, reason))
    if faults:
        return None, faults
    return Row(values["text"] or "", values["text_pair"], values["label"], record.line, record.file), []


def _read_label(record: Record, found: Columns, rules: Rules, read: dict[str, str]) -> tuple[str | None, str | None]:
    try:
        cell = found.label(record)
    except ValueError as error:
        return None, f"the column {error}"
    if isinstance(cell, str) and (known := read.get(cell)) is not None:
        return known, None
    label, reason = read_label(cell, rules)
    if reason is None and (found.names["label"], label) == ("gold_label", "-"):
        reason = "'-' is not a label: the annotators did not agree"
    if reason is None and label is not None and isinstance(cell, str) and len(read) < _LABELS_KEPT:
        read[cell] = label
    return label, reason


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
        row = self.first
        named = {role: cell for role in self.found.names if (cell := getattr(row, role)) is not None}
        cells = [cell.strip() for cell in named.values()]
        given = ",".join(f"{role}={cell.strip()}" for role, cell in named.items())
        places = ",".join(f"{role}={index}" for index, role in enumerate(self.found.names))
        raise InputError(
            f"The first row of {path} ({', '.join(cells)}) looks like a header with unrecognized names: use --columns "
            f"{given} if it is a header, or --columns {places} if it is data."
        )

    @staticmethod
    def _cells(row: Row) -> list[str]:
        return [cell for cell in (row.text, row.text_pair, row.label) if cell is not None]
