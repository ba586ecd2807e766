"""Reads labeled text from .csv, .tsv, .jsonl and .parquet files, and finds the reader of any labeled file.

A row is bad if it cannot be parsed (encoding, quoting, JSON), has too few or too many columns, or if its text is empty
or its label missing, unknown, or not a number where one is required. Bad rows are collected over the whole file and
raised together, each with file, physical line, column and reason; or skipped and returned on request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ...core import registry
from ...core.errors import InputError, RowError, RowErrors
from ...core.progress import note
from ..annotations.reader import CLASSES, annotation_format, find_annotations, has_annotations
from ..formats.cells import (
    KNOWN_NAMES,
    LABEL_NAMES,
    TEXT_NAMES,
    Columns,
    Flags,
    LabelColumn,
    LabelForm,
    Rules,
    as_bit,
    is_header,
    is_label_first,
    numbered,
    position_names,
    read_label,
    read_text,
    with_names,
    without_header,
)
from ..formats.files import STDIN, file_format, read_lines
from ..formats.records import (
    COLUMNS,
    Dialect,
    Record,
    first_names,
    header_of,
    is_fasttext,
    name_cells,
    parquet_columns,
    read_fasttext,
    read_records,
)

_ROWS_SEEN = 1000  # which show what the columns are
_FIRST_ROWS = 20  # to recognize a table
_LABELS_KEPT = 10_000  # different labels whose cells are read once


# -- the readers: one for each layout, in `core.registry` under "reader" -------------------------------------


def label_column(path: Path) -> str | None:
    """Returns the recognized label column of a table that also has a recognized text column, else None."""
    kind = file_format(path, default="txt")
    names = [] if kind == "txt" or not path.is_file() else first_names(path, kind)
    texts = {name for known in TEXT_NAMES for name in known}
    return next((name for name in LABEL_NAMES if name in names), None) if texts.intersection(names) else None


@dataclass(frozen=True)
class Reader:
    """How files of one layout are recognized and read.

    Attributes:
        name: name in the registry.
        contains: what such a file contains, for messages.
        layout: its layouts and formats, for messages.
        example_file: name of a test file, for suggested commands.
        recognizes: path, column mapping -> whether the file has this layout.
        read: path, column mapping, skip_bad_rows, whether every row needs a label -> its rows.
        stream: path, column mapping, list of errors -> iterator over the rows with labels, which adds the errors of
            others to the list; None if only `read` can do it.
        is_text: whether its rows are texts with at most one label, which `texts` reads too.
        also: name of another reader of the same files, for tasks that do not take the rows of this one.
        read_classes: path, column mapping, allowed labels or None, skip_bad_rows -> rows of labeled texts that are not
            in a table; None for other readers.
    """

    name: str
    contains: str
    layout: str
    example_file: str
    recognizes: Callable[[Path, Mapping[str, str]], bool] = field(repr=False)
    read: Callable[[Path, Mapping[str, str], bool, bool], Any] = field(repr=False)
    stream: Callable[[Path, Mapping[str, str], list[RowError]], Iterator[Any]] | None = field(default=None, repr=False)
    is_text: bool = False
    also: str = ""
    read_classes: Callable[[Path, Mapping[str, str] | None, Collection[str] | None, bool], Any] | None = field(
        default=None, repr=False
    )

    def scan(self, path: Path, columns: Mapping[str, str], faults: list[RowError]) -> Iterator[Any]:
        """Yields the rows with labels; adds the errors of the others to `faults`."""
        if self.stream is not None:
            return self.stream(path, columns, faults)
        found = self.read(path, columns, True, True)
        faults += found.skipped
        return iter(found.rows)


def find_reader(
    path: Path, columns: Mapping[str, str] | None = None, fits: Callable[[Reader], bool] | None = None
) -> Reader | None:
    """Returns the first registered reader that recognizes a file, None if none does.

    fits: whether the rows of a reader can be used; if not those of the first, those of its `also` are tried.
    """
    found = next((reader for reader in _readers() if reader.recognizes(path, columns or {})), None)
    if found is None or fits is None or fits(found) or not found.also:
        return found
    other: Reader = registry.resolve("reader", found.also)
    return other if fits(other) and other.recognizes(path, columns or {}) else found


def find_classes_reader(path: Path, columns: Mapping[str, str] | None = None) -> Reader | None:
    """Returns the reader of labeled texts that are not in a table, None if the file is none of these."""
    return next((one for one in _readers() if one.read_classes and one.recognizes(path, columns or {})), None)


def _readers() -> Iterator[Reader]:
    return (registry.resolve("reader", name) for name in registry.names("reader"))


@dataclass(frozen=True)
class FoundRows:
    """The valid rows of a file; skipped: the errors of the skipped ones."""

    rows: list[Any]
    skipped: list[RowError] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def num_skipped(self) -> int:
        """Number of skipped rows (a row may have several errors)."""
        return len({(error.file, error.line) for error in self.skipped})


def check_rows(
    path: Path | str, rows: Sequence[Any], faults: Sequence[RowError], skip_bad_rows: bool, what: str = "rows"
) -> None:
    """Raise RowErrors for bad rows unless they are skipped and others are valid; InputError if there are no rows."""
    if faults and not (skip_bad_rows and rows):
        raise RowErrors(faults, len(rows))
    if not rows:
        raise InputError(f"{path} contains no {what}.")


# -- tables of texts -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """One example: text, second text of a pair (or None), label as text (or None), and its location."""

    text: str
    text_pair: str | None
    label: str | None
    line: int
    file: str


@dataclass(frozen=True)
class Table(FoundRows):
    """The rows of a file.

    columns: role ("text", "text_pair", "label") -> column name; form: how the labels are written; groups: line -> value
    of the group column, {} without one.
    """

    columns: dict[str, str] = field(default_factory=dict)
    form: LabelForm = field(default_factory=LabelForm)
    groups: dict[int, str] = field(default_factory=dict, repr=False)

    @property
    def has_label(self) -> bool:
        """Whether the file has a label column."""
        return "label" in self.columns

    @property
    def has_pair(self) -> bool:
        """Whether each example is a pair of texts."""
        return "text_pair" in self.columns


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
        path,
        columns,
        need_label,
        list(where),
        multi_label=False if numeric else multi_label,
        labels=labels,
        may_flip=not is_text,
    )
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
    chosen = "".join(f" with {name} = {value}" for name, value in where.items())
    check_rows(path, rows, faults, skip_bad_rows, f"rows{chosen}")
    guess = HeaderDetector(found)
    for row in rows:
        guess.see(row)
    guess.reject_header(path)
    return Table(rows, faults, found.names, form, groups)


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
    check_rows(shown(path), rows, faults, skip_bad_rows, "text")
    return Table(rows, faults, {"text": "line"})


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
    """Whether each line of a file is a text, because it is not a table by its name, has no labels of fastText and is
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
        kept = record.faults or not where or all(str(record.named.get(name)) == one for name, one in where.items())
        if not kept:
            continue
        row, bad = read_row(record, found, rules, read)
        faults += bad
        if row is not None:
            if found.group is not None and groups is not None:
                groups[row.line] = str(record.named.get(found.group))
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
    labels: see `cells.Flags`; may_flip: without a header, the label may be in the first column. The remarks of the
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
    flags = Flags(list, multi_label, labels)
    if kind == "parquet":
        names = parquet_columns(path)
        flags = replace(flags, find=lambda: _flag_columns(islice(read_records(path, kind), _ROWS_SEEN)))
        found = with_names(names, mapping, str(path), need_label, others, flags)
        return read_records(path, kind, list(dict.fromkeys([*found.used, *others]))), found
    dialect = Dialect()
    records = read_records(path, kind, dialect=dialect)
    seen: list[Record] = []
    if kind == "jsonl":
        every: Iterable[Record] = list(records) if is_held else records
        header = list(dict.fromkeys(name for record in every for name in record.named))
        if not header:
            faults = [fault for record in (every if is_held else read_records(path, kind)) for fault in record.faults]
            raise RowErrors(faults) if faults else InputError(f"{path} is empty.")
        flags = replace(flags, find=lambda: _flag_columns(islice(every, _ROWS_SEEN if is_held else 0)))
        rows = iter(every) if is_held else read_records(path, kind)
        return rows, with_names(header, mapping, str(path), need_label, others, flags)
    first = list(islice(records, 1))
    header = header_of(path, chain(first, records))
    if is_header(header, mapping):

        def find_flags() -> list[str]:
            seen.extend(islice(records, _ROWS_SEEN))
            return _flag_columns(name_cells(seen, header))

        wanted = position_names(header, mapping, str(path))
        found = with_names(header, wanted, str(path), need_label, others, replace(flags, find=find_flags))
    elif others:
        raise InputError(f"{path} has no header, so no column '{others[0]}' to filter rows by.")
    else:
        seen += [*first, *(islice(records, _ROWS_SEEN) if may_flip and not mapping else ())]
        is_first = may_flip and is_label_first([one.cells for one in seen if one.cells])
        found = without_header(len(header), mapping, str(path), need_label, is_first)
        header = numbered(len(header))
    dialect.remarks += found.remarks
    return name_cells(chain(seen, records), header), replace(found, remarks=dialect.remarks)


def _flag_columns(records: Iterable[Record]) -> list[str]:
    """The names of the columns that contain 0 or 1 in all rows, and both."""
    values: dict[str, set[bool | None]] = {}
    good = [record.named for record in records if not record.faults]
    for name in dict.fromkeys(name for named in good for name in named):
        values[name] = {as_bit(named.get(name)) for named in good}
    return [name for name, found in values.items() if None not in found and True in found]


def read_row(
    record: Record, found: Columns, rules: Rules, read: dict[str, str] | None = None
) -> tuple[Row | None, list[RowError]]:
    """Returns the row, or None and its errors. read: labels of cells read before, which are not read again."""
    if record.faults:
        return None, list(record.faults)
    faults: list[RowError] = []
    values: dict[str, str | None] = {"text_pair": None, "label": None}
    for role, name in found.names.items():
        if role == "label":
            values[role], reason = _read_label(record, found, rules, {} if read is None else read)
        else:
            values[role], reason = read_text(record.named.get(name))
        if reason is not None:
            faults.append(record.fault(name, reason))
    if faults:
        return None, faults
    return Row(values["text"] or "", values["text_pair"], values["label"], record.line, record.file), []


def _read_label(record: Record, found: Columns, rules: Rules, read: dict[str, str]) -> tuple[str | None, str | None]:
    try:
        cell = found.flagged(record.named) if found.flags else record.named.get(found.names["label"])
    except ValueError as error:
        return None, str(error)
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
            self.is_open = row.label is not None and all(cell.isidentifier() for cell in self._cells(row).values())
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
        given = ",".join(f"{role}={cell}" for role, cell in cells.items())
        places = ",".join(f"{role}={index}" for index, role in enumerate(self.found.names))
        raise InputError(
            f"The first row of {path} ({', '.join(cells.values())}) looks like a header with unrecognized names: use "
            f"--columns {given} if it is a header, or --columns {places} if it is data."
        )

    def _cells(self, row: Row) -> dict[str, str]:
        return {role: cell.strip() for role in self.found.names if (cell := getattr(row, role)) is not None}


# -- texts streamed after validation, so that they are never held in memory ----------------------------------
#
# A file is read twice: the first pass counts rows and finds every bad row before any work is done, the second yields
# rows. Input that can only be read once (standard input, a pipe) is streamed directly, and its bad rows are raised at
# the end.


class RowStream:
    """Rows of a file, with labels if the table has them; each iteration reads the file again.

    num_rows: number of valid rows, None if unknown before the end of the input; num_skipped: skipped bad rows, known
    with num_rows or after an iteration. Construction and iteration raise the errors of `read_texts`.
    """

    def __init__(
        self, path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False
    ) -> None:
        self.path, self.columns, self.skip_bad_rows = path, columns, skip_bad_rows
        self.num_rows: int | None = None
        self.num_skipped = 0
        self._held: list[Row] | None = None
        is_read_once = str(path) == STDIN or Path(path).is_fifo() or Path(path).is_char_device()
        if not is_read_once:
            self.num_rows = sum(1 for _ in self._read(is_first=True))
        elif not is_lines(path):
            # The columns of a table are known after one pass, so rows from a pipe have to be kept.
            table = read_table(path, columns=columns, need_label=False, skip_bad_rows=skip_bad_rows)
            self._held, self.num_rows, self.num_skipped = table.rows, len(table), table.num_skipped

    def __iter__(self) -> Iterator[Row]:
        return iter(self._held) if self._held is not None else self._read()

    def _read(self, is_first: bool = False) -> Iterator[Row]:
        """Yields one pass; the first reports what was detected.

        After a bad row nothing more is yielded unless bad rows are skipped; the end raises them.
        """
        faults: list[RowError] = []
        found, rows = scan_texts(self.path, self.columns, faults)
        guess = HeaderDetector(found)
        count = 0
        for row in rows:
            guess.see(row)
            count += 1
            if not faults or self.skip_bad_rows:
                yield row
        if faults and not (self.skip_bad_rows and count):
            raise RowErrors(faults, count)
        self.num_skipped = len({(fault.file, fault.line) for fault in faults})
        if not count:
            raise InputError(f"{shown(self.path)} contains no text.")
        guess.reject_header(self.path)
        for remark in found.remarks if is_first else ():
            note(remark)


def is_table_of_texts(path: Path) -> bool:
    """Whether a .tsv or .csv has two known column names, or mostly several words in its first column; or a file has
    the labels of fastText.
    """
    if is_fasttext(path):
        return True
    kind = file_format(path, default="other")
    if kind not in ("csv", "tsv") or not path.is_file():
        return False
    first = [record.cells for record in islice(read_records(path, kind), _FIRST_ROWS) if record.cells]
    if not first:
        return False
    num_named = sum(cell.strip().casefold() in KNOWN_NAMES for cell in first[0])
    return num_named > 1 or 2 * sum(" " in cells[0].strip() for cells in first) > len(first)


def _scan(path: Path, columns: Mapping[str, str], faults: list[RowError]) -> Iterator[Row]:
    found, rows = scan_texts(path, columns or None, faults, need_label=has_annotations(path, CLASSES, columns))
    yield from rows
    for remark in found.remarks:
        note(remark)


READER = Reader(
    "texts",
    "a table of texts",
    "a table: .csv, .tsv, .jsonl, .json or .parquet, one text per row, or classes of an annotation tool",
    "test.tsv",
    recognizes=lambda path, columns: has_annotations(path, CLASSES, columns) or is_table_of_texts(path),
    read=lambda path, columns, skip_bad_rows, labeled: RowStream(
        path, columns=columns or None, skip_bad_rows=skip_bad_rows
    ),
    stream=_scan,
    is_text=True,
)
