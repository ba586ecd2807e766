"""Reads the rows of a table file in any format, each with its physical line and parsing errors.

Comma-separated files follow RFC 4180 (quoted fields may contain commas, quotes and line breaks), tab-separated files
are read literally unless they are quoted, and `dialect` finds other delimiters; JSON lines contain one object each,
and a .json file an array of objects, or one after another; in .json and Parquet the "line" is the number of the record
from 1, and an integer whose class names a Parquet file holds is read as its name. `tables` and `corpus` interpret the
rows.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from ...core.errors import InputError, MissingExtraError, RowError
from .cells import json_kind
from .class_names import class_names, named_value
from .column_names import KNOWN_NAMES
from .dialect import DELIMITERS, Dialect, find_delimiter, first_lines, is_quoted, said_delimiter
from .files import MAX_LINE_BYTES, PACKINGS, Line, Meter, bare_suffix, open_bytes, read_lines
from .json_array import RepeatedKeyError, deduplicated, read_values

_PARQUET_ROWS = 1024
_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """One row: cells in order (csv, tsv) or by name (jsonl, parquet), and the errors found so far."""

    file: str
    line: int
    cells: Sequence[str] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[RowError, ...] = ()

    def fault(self, column: str | None, reason: str) -> RowError:
        """Returns a RowError for this row."""
        return RowError(self.file, self.line, column, reason)


def read_records(
    path: Path | str,
    kind: str,
    columns: Sequence[str] | None = None,
    meter: Meter | None = None,
    dialect: Dialect | None = None,
) -> Iterator[Record]:
    """Yields the rows of a file of format `kind` ("csv", "tsv", "jsonl", "parquet"); blank lines are skipped.

    columns: columns to read from Parquet (default: all; other formats always read all); meter: called periodically
    with the number of bytes read; dialect: set to what is found while reading csv and tsv.
    """
    if kind == "parquet":
        return _read_parquet(path, columns)
    if kind == "jsonl" and bare_suffix(path) == ".json":
        return _read_json(path)
    if kind == "jsonl":
        return _read_jsonl(path, read_lines(path, meter))
    return _read_delimited(path, kind, read_lines(path, meter), Dialect() if dialect is None else dialect)


def read_literal(path: Path | str) -> Iterator[Record]:
    """Yields the rows of a tab-separated file in which quotes are text."""
    return _read_tsv(path, read_lines(path))


def _read_delimited(path: Path | str, kind: str, lines: Iterator[Line], dialect: Dialect) -> Iterator[Record]:
    own = "\t" if kind == "tsv" else ","
    head = first_lines(lines)
    said = said_delimiter(head[0].text) if head else None
    del head[: said is not None]
    texts = [line.text for line in head if not line.fault]
    dialect.delimiter = said or find_delimiter(texts, own, KNOWN_NAMES)
    if dialect.delimiter != own:
        dialect.remarks.append(f"{path}: the columns are separated by {DELIMITERS[dialect.delimiter]}.")
    lines = chain(head, lines)
    del head, texts
    read = _read_tabs if dialect.delimiter == "\t" else _read_csv
    yield from read(path, lines, dialect)


def _read_tabs(path: Path | str, lines: Iterator[Line], dialect: Dialect) -> Iterator[Record]:
    """Yields the rows of a tab-separated file; the first lines with a quote decide whether fields are quoted."""
    width = 0
    dialect.is_quoted = False
    for line in lines:
        if '"' in line.text and not line.fault:
            window = [line, *first_lines(lines)]
            dialect.is_quoted = is_quoted([one.text for one in window], width)
            if dialect.is_quoted:
                dialect.remarks.append(
                    f"{path}: fields are quoted, as pandas and spreadsheets write tab-separated files; a doubled quote "
                    "is read as one."
                )
            elif any(cell.startswith('"') for one in window for cell in one.text.split("\t")):
                dialect.remarks.append(f"{path}: quotes are part of the text, because fields are not quoted.")
            read = _read_csv if dialect.is_quoted else _read_tsv
            lines = chain(window, lines)
            del window
            yield from read(path, lines, dialect)
            return
        if line.fault:
            yield Record(str(path), line.number, faults=(_faulty(path, line),))
        elif line.text.strip(" \r"):
            cells = line.text.split("\t")
            width = width or len(cells)
            yield Record(str(path), line.number, cells=cells)


def _faulty(path: Path | str, line: Line) -> RowError:
    return RowError(str(path), line.number, None, line.fault or "")


def _read_tsv(path: Path | str, lines: Iterator[Line], dialect: Dialect | None = None) -> Iterator[Record]:
    for line in lines:
        if line.fault:
            yield Record(str(path), line.number, faults=(_faulty(path, line),))
        elif line.text.strip(" \r"):
            yield Record(str(path), line.number, cells=line.text.split("\t"))


# -- csv ---------------------------------------------------------------------------------------------------


class _LineFeed:
    """Physical lines for `csv.reader`; remembers the lines of the current row so that some can be read again."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self.lines, self.returned = lines, deque[Line]()
        self.taken: list[Line] = []

    def __iter__(self) -> _LineFeed:
        return self

    def __next__(self) -> str:
        line = self.returned.popleft() if self.returned else next(self.lines)
        self.taken.append(line)
        return line.text + "\n"

    def unread_lines(self) -> None:
        """Read the lines of the current row again, except the first."""
        self.returned.extendleft(reversed(self.taken[1:]))


def _next_row(reader: Iterator[list[str]]) -> list[str]:
    """Returns the next row; fields may be as long as a line. The csv limit is global, so it is restored."""
    limit = csv.field_size_limit(MAX_LINE_BYTES)
    try:
        return next(reader)
    finally:
        csv.field_size_limit(limit)


def _read_csv(path: Path | str, lines: Iterator[Line], dialect: Dialect) -> Iterator[Record]:
    """Yields the rows of a file with quoted fields.

    An unclosed quoted field extends to the next quote. It is reported at the line where it opens, and reading continues
    at the following line, so that one missing quote does not hide the rows after it.
    """
    feed = _LineFeed(lines)
    reader = csv.reader(feed, strict=True, delimiter=dialect.delimiter)
    while True:
        feed.taken = []
        try:
            cells = _next_row(reader)
        except StopIteration:
            return
        except csv.Error as error:
            first = feed.taken[0]
            reason = first.fault or _csv_reason(str(error), feed.taken)
            feed.unread_lines()
            reader = csv.reader(feed, strict=True, delimiter=dialect.delimiter)
            yield Record(str(path), first.number, faults=(RowError(str(path), first.number, None, reason),))
            continue
        first = feed.taken[0]
        faults = tuple(_faulty(path, line) for line in feed.taken if line.fault)
        if faults or first.text.strip():
            yield Record(str(path), first.number, cells=cells, faults=faults)


def _csv_reason(message: str, lines: Sequence[Line]) -> str:
    if "new-line character" in message:
        return "an unquoted field contains a carriage return: quote the field"
    if "field larger" in message:
        return f"a field has more than {MAX_LINE_BYTES:,} characters; its closing quote may be missing"
    if "unexpected end" in message:
        return "a quoted field is never closed: a quote inside a field must be doubled"
    where = f" on line {lines[-1].number}" if len(lines) > 1 else ""
    return f"text follows the closing quote of a field{where}: a quote inside a quoted field must be doubled"


# -- JSON lines --------------------------------------------------------------------------------------------


def _read_jsonl(path: Path | str, lines: Iterator[Line]) -> Iterator[Record]:
    is_first = True
    for line in lines:
        if is_first and line.text.lstrip().startswith("[") and Path(path).is_file():
            yield from _read_json(path)
            return
        is_first = is_first and not line.text.strip()
        if line.fault:
            yield Record(str(path), line.number, faults=(_faulty(path, line),))
        elif line.text.strip():
            named, reason = parse_object(line.text)
            faults = () if reason is None else (RowError(str(path), line.number, None, reason),)
            yield Record(str(path), line.number, named=named, faults=faults)


def _read_json(path: Path | str) -> Iterator[Record]:
    """Yields the objects of a .json file: entries of an array, or one after another."""
    for number, value in read_values(path):
        reason = None if isinstance(value, dict) else f"expected a JSON object, not {json_kind(value)}"
        faults = () if reason is None else (RowError(str(path), number, None, reason),)
        yield Record(str(path), number, named={} if faults else value, faults=faults)


def parse_object(text: str) -> tuple[dict[str, Any], str | None]:
    """Returns the JSON object in `text`, and the reason if there is none."""
    try:
        value = json.loads(text, object_pairs_hook=deduplicated)
    except json.JSONDecodeError as error:
        return {}, f"not valid JSON: {error.msg} at character {error.pos + 1}"
    except RepeatedKeyError as error:
        return {}, str(error)
    except RecursionError:
        return {}, "not usable JSON: nested too deeply"
    except ValueError as error:  # a number of thousands of digits
        return {}, f"not usable JSON: {error}"
    if not isinstance(value, dict):
        return {}, f"expected a JSON object, not {json_kind(value)}"
    return value, None


# -- Parquet -----------------------------------------------------------------------------------------------


def parquet_columns(path: Path | str) -> list[str]:
    """Returns the column names of a Parquet file."""
    with _open_parquet(path) as file:
        return list(file.schema_arrow.names)


def _read_parquet(path: Path | str, columns: Sequence[str] | None) -> Iterator[Record]:
    import pyarrow

    row = 0
    with _open_parquet(path) as file:
        classes = class_names(file.schema_arrow.metadata)
        try:
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS, columns=columns):
                for named in batch.to_pylist():
                    row += 1
                    faults: tuple[RowError, ...] = ()
                    for name in classes.keys() & named.keys():
                        named[name], reason = named_value(named[name], classes[name])
                        faults += () if reason is None else (RowError(str(path), row, name, reason),)
                    yield Record(str(path), row, named=named, faults=faults)
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is damaged after row {row} ({_first_line(error)}): download it again.") from None


def _open_parquet(path: Path | str) -> Any:
    """Open a pyarrow ParquetFile. It needs random access, so a compressed file is decompressed first."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("Reading Parquet files", "data") from None
    source: Any = str(path)
    with open_bytes(path) as handle:  # also reports files that cannot be opened
        if Path(path).suffix.lower() in PACKINGS:
            source = tempfile.TemporaryFile()  # noqa: SIM115  (the reader closes it)
            while data := handle.read(_COPY_BYTES):
                source.write(data)
            source.seek(0)
    try:
        return parquet.ParquetFile(source)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path} is not a readable Parquet file: {_first_line(error)}.") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0].rstrip(".")
