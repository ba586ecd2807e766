"""The rows of one table file, in any format, each with its physical line and its faults as a row.

Comma-separated files follow RFC 4180 (quoted fields may hold commas, quotes and line breaks); tab-separated
ones are taken literally; JSON lines hold one object each; in Parquet the "line" is the number of the row,
from 1. What a row *means* is decided in `tables` and `corpus`.
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

from ..core.errors import InputError, MissingExtraError, RowError
from .files import MAX_LINE_BYTES, PACKINGS, Line, Meter, open_bytes, read_lines

_PARQUET_ROWS = 1024
_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """One row: cells in order (csv, tsv) or by name (jsonl, parquet); the faults found so far."""

    file: str
    line: int
    cells: Sequence[str] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[RowError, ...] = ()

    def fault(self, column: str | None, reason: str) -> RowError:
        """A RowError at this row."""
        return RowError(self.file, self.line, column, reason)


def read_records(
    path: Path | str, kind: str, columns: Sequence[str] | None = None, meter: Meter | None = None
) -> Iterator[Record]:
    """The rows of a file of format `kind` ("csv", "tsv", "jsonl", "parquet"); blank lines are no rows.

    columns: those to read from Parquet (default: all); other formats are read whole; meter: is told now and
    then how many bytes of the file are read.
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
    """Physical lines for `csv.reader`, which remembers those of the row in work and can take some back."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self.lines, self.returned = lines, deque[Line]()
        self.taken: list[Line] = []

    def __iter__(self) -> _LineFeed:
        return self

    def __next__(self) -> str:
        line = self.returned.popleft() if self.returned else next(self.lines)
        self.taken.append(line)
        return line.text + "\n"

    def take_back_all_but_first(self) -> None:
        """Give the lines of the row in work again, all but its first."""
        self.returned.extendleft(reversed(self.taken[1:]))


def _read_csv(path: Path | str, lines: Iterator[Line]) -> Iterator[Record]:
    """Rows of a comma-separated file.

    A quoted field that is not closed properly swallows lines up to the next quote. It is reported where it
    opens, and reading goes on at the line after that, so that one missing quote does not hide the rows
    behind it.
    """
    if csv.field_size_limit() < MAX_LINE_BYTES:
        csv.field_size_limit(MAX_LINE_BYTES)
    feed = _LineFeed(lines)
    reader = csv.reader(feed, strict=True)
    while True:
        feed.taken = []
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            first = feed.taken[0]
            reason = first.fault or _csv_reason(str(error), feed.taken)
            feed.take_back_all_but_first()
            reader = csv.reader(feed, strict=True)
            yield Record(str(path), first.number, faults=(RowError(str(path), first.number, None, reason),))
            continue
        first = feed.taken[0]
        faults = tuple(_faulty(path, line) for line in feed.taken if line.fault)
        if faults or first.text.strip():
            yield Record(str(path), first.number, cells=cells, faults=faults)


def _csv_reason(message: str, lines: Sequence[Line]) -> str:
    if "new-line character" in message:
        return "a carriage return stands in an unquoted field: put the field in quotes"
    if "field larger" in message:
        return f"a field has more than {MAX_LINE_BYTES:,} characters; perhaps its closing quote is missing"
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
            named, reason = _parse_object(line.text)
            faults = () if reason is None else (RowError(str(path), line.number, None, reason),)
            yield Record(str(path), line.number, named=named, faults=faults)


def _parse_object(text: str) -> tuple[dict[str, Any], str | None]:
    """The JSON object in `text`, or why there is none."""
    try:
        value = json.loads(text, object_pairs_hook=without_repeats)
    except json.JSONDecodeError as error:
        return {}, f"not valid JSON: {error.msg} at character {error.pos + 1}"
    except RepeatedKeyError as error:
        return {}, str(error)
    except RecursionError:
        return {}, "not usable JSON: nested too deeply"
    except ValueError as error:  # a number of thousands of digits
        return {}, f"not usable JSON: {error}"
    if not isinstance(value, dict):
        return {}, f"a JSON object is needed, not {json_kind(value)}"
    return value, None


class RepeatedKeyError(Exception):
    """A key that stands twice in one JSON object."""


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs of a JSON object as a dict. Raises RepeatedKeyError."""
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise RepeatedKeyError(f"the key '{repeated}' stands twice in the object")
    return value


def json_kind(value: Any) -> str:
    """What a JSON value is, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    return {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}.get(
        type(value), f"a value of type {type(value).__name__}"
    )


# -- Parquet -----------------------------------------------------------------------------------------------


def parquet_columns(path: Path | str) -> list[str]:
    """The names of a Parquet file's columns."""
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
            raise InputError(f"{path} is damaged after row {row} ({_first_line(error)}): fetch it again.") from None


def _open_parquet(path: Path | str) -> Any:
    """A pyarrow ParquetFile. Since it is read from its end, a packed one is unpacked first."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("Reading Parquet files", "data") from None
    source: Any = str(path)
    with open_bytes(path) as handle:  # also says in words what cannot be opened
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
