"""Reads the rows of a table file in any format, each with its physical line and parsing errors.

Comma-separated files follow RFC 4180 (quoted fields may contain commas, quotes and line breaks); tab-separated files
are read literally; JSON lines contain one object each; in Parquet the "line" is the row number from 1. `tables` and
`corpus` interpret the rows.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.errors import InputError, MissingExtraError, RowError
from .files import MAX_LINE_BYTES, PACKINGS, Line, Meter, open_bytes, read_lines

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
    path: Path | str, kind: str, columns: Sequence[str] | None = None, meter: Meter | None = None
) -> Iterator[Record]:
    """Yields the rows of a file of format `kind` ("csv", "tsv", "jsonl", "parquet"); blank lines are skipped.

    columns: columns to read from Parquet (default: all; other formats always read all); meter: called periodically
    with the number of bytes read.
    """
    if kind == "parquet":
        return _read_parquet(path, columns)
    read = {"csv": _read_csv, "tsv": _read_tsv, "jsonl": _read_jsonl}[kind]
    return read(path, read_lines(path, meter))


def _faulty(path: Path | str, line: Line) -> RowError:
    return RowError(str(path), line.number, None, line.fault or "")


def _read_tsv(path: Path | str, lines: Iterator[Line]) -> Iterator[Record]:
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


def _read_csv(path: Path | str, lines: Iterator[Line]) -> Iterator[Record]:
    """Yields the rows of a comma-separated file.

    An unclosed quoted field extends to the next quote. It is reported at the line where it opens, and reading continues
    at the following line, so that one missing quote does not hide the rows after it.
    """
    feed = _LineFeed(lines)
    reader = csv.reader(feed, strict=True)
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
            reader = csv.reader(feed, strict=True)
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
    for line in lines:
        if line.fault:
            yield Record(str(path), line.number, faults=(_faulty(path, line),))
        elif line.text.strip():
            named, reason = parse_object(line.text)
            faults = () if reason is None else (RowError(str(path), line.number, None, reason),)
            yield Record(str(path), line.number, named=named, faults=faults)


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


class RepeatedKeyError(Exception):
    """A JSON object has a duplicate key."""


def deduplicated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the pairs of a JSON object as a dict. Raises RepeatedKeyError for a duplicate key."""
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise RepeatedKeyError(f"duplicate key '{repeated}' in the object")
    return value


def json_kind(value: Any) -> str:
    """Describes the type of a JSON value in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    return {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}.get(
        type(value), f"a value of type {type(value).__name__}"
    )


# -- Parquet -----------------------------------------------------------------------------------------------


def parquet_columns(path: Path | str) -> list[str]:
    """Returns the column names of a Parquet file."""
    with _open_parquet(path) as file:
        return list(file.schema_arrow.names)


def _read_parquet(path: Path | str, columns: Sequence[str] | None) -> Iterator[Record]:
    import pyarrow

    row = 0
    with _open_parquet(path) as file:
        try:
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS, columns=columns):
                for named in batch.to_pylist():
                    row += 1
                    yield Record(str(path), row, named=named)
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
