"""Reads the rows of a table file in any format, each with its physical line and parsing errors.

Comma-separated files follow RFC 4180 (quoted fields may contain commas, quotes and line breaks), tab-separated files
are read literally unless they are quoted; JSON lines contain one object each, and a .json file an array of objects, or
one after another; in .json and Parquet the "line" is the number of the record from 1, and an integer whose class names
a Parquet file contains is read as its name. `tables` and `corpus` interpret the rows.

The delimiter, and whether tab-separated fields are quoted, are found in a bounded number of lines and said in one
sentence, because a file name only suggests them: spreadsheets of many countries write .csv with semicolons, and pandas
and spreadsheets quote the fields of .tsv, where the files of GLUE hold quotes that are text.
"""

from __future__ import annotations

import csv
import json
import re
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ...core.errors import InputError, MissingExtraError, RowError, RowErrors
from .cells import KNOWN_NAMES, json_kind
from .files import (
    MAX_LINE_BYTES,
    PACKINGS,
    STDIN,
    Line,
    Meter,
    RepeatedKeyError,
    bare_suffix,
    deduplicated,
    file_format,
    open_bytes,
    read_lines,
    read_values,
)

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars (|)"}
_SAID_FIRST = re.compile(r'"?sep=(.)"?[,;\t]*\s*', re.IGNORECASE)
LINES_SEEN = 200
_CHARACTERS_SEEN = 1 << 18
_STEADY = 0.95  # fraction of rows with as many columns as the first
_TIGHT = 0.9  # share of delimiters that nobody writes in prose
_WRAPPED = re.compile(r'"(?:[^"]|"")*"')
_NUMBER = re.compile(r"[-+.\d,eE]*")


@dataclass
class Dialect:
    """How a file is written, known once its rows are read.

    delimiter: of columns; is_quoted: a field may be quoted, with doubled quotes and line breaks; remarks: sentences
    about what was detected, to be said once per file.
    """

    delimiter: str = ","
    is_quoted: bool = True
    remarks: list[str] = field(default_factory=list)


def first_lines(lines: Iterator[Line]) -> list[Line]:
    """Takes a bounded number of lines."""
    taken, size = [], 0
    for line in islice(lines, LINES_SEEN):
        taken.append(line)
        size += len(line.text)
        if size > _CHARACTERS_SEEN:
            break
    return taken


def said_delimiter(line: str) -> str | None:
    """Returns the delimiter that a first line `sep=;` names, as Excel writes and reads it; None for any other line."""
    match = _SAID_FIRST.fullmatch(line.lstrip("\ufeff"))
    return match[1] if match is not None and match[1] in DELIMITERS else None


def find_delimiter(lines: Sequence[str], own: str, known_names: frozenset[str]) -> str:
    """Returns the delimiter of a table: `own`, that of its file name, unless another one is evident.

    It is evident if it makes a recognized name of a cell of the first row, or if it gives all rows the same number of
    columns and is not followed by spaces (as in prose), while `own` does not or is. A bar, which also joins labels,
    needs both: a recognized name, and the same number of columns in every row.
    """
    marks = [own, *(mark for mark in DELIMITERS if mark != own)]
    rows = {mark: _cells(lines, mark) for mark in marks}
    for mark, found in rows.items():
        first = [cell.strip().casefold() for cell in found[0]] if found else []
        is_equal = mark != "|" or {len(row) for row in found} == {len(first)}
        if (len(first) > 1 or mark == own) and is_equal and known_names.intersection(first):
            return mark
    others = [
        mark for mark in marks[1:] if mark != "|" and _is_steady(rows[mark]) and _tightness(lines, mark) >= _TIGHT
    ]
    if not others or (_is_steady(rows[own]) and (own == "\t" or _tightness(lines, own) > 0.5)):
        return own
    return others[0]


def _cells(lines: Sequence[str], mark: str) -> list[list[str]]:
    if mark == "\t":
        return [line.split("\t") for line in lines if line.strip()]
    found = []
    limit = csv.field_size_limit(1 << 24)  # the limit is global, so it is restored
    try:
        found = [row for row in csv.reader((f"{line}\n" for line in lines), delimiter=mark) if row]
    except csv.Error:  # a lone carriage return, which the reader of the rows reports
        pass
    finally:
        csv.field_size_limit(limit)
    return found


def _is_steady(rows: Sequence[Sequence[str]]) -> bool:
    """Whether nearly all rows have as many columns as the first, and more than one."""
    widths = [len(row) for row in rows]
    return bool(widths) and widths[0] > 1 and widths.count(widths[0]) >= _STEADY * len(widths)


def _tightness(lines: Sequence[str], mark: str) -> float:
    """Share of delimiters that are followed by no space, and do not separate the digits of a number."""
    count = loose = 0
    for line in lines:
        count += line.count(mark)
        loose += line.count(f"{mark} ") + (len(re.findall(r"\d,\d", line)) if mark == "," else 0)
    return 1 - loose / count if count else 0.0


def is_quoted(lines: Sequence[str], width: int) -> bool:
    """Whether the tab-separated fields of lines, the first of which has a quote, are quoted.

    A program that quotes a field doubles the quotes in it, and quotes every field that has a quote, a tab or a line
    break; so one field that breaks this rule shows that quotes are text. width: columns of the lines before, 0 if none.
    """
    reader = csv.reader((f"{line}\n" for line in lines), delimiter="\t", strict=True)
    can_be_all, is_telling, num_rows, start = width == 0, False, 0, 0  # of all lines, with the header
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            if "unexpected end" not in str(error) or len(lines) < LINES_SEEN:
                return False
            row = None  # the last row continues after these lines
        if row is None:
            return is_telling or (can_be_all and num_rows > 1)
        raw, start = lines[start : reader.line_num], reader.line_num
        if not row:
            continue
        width = width or len(row)
        if len(row) != width:
            return False
        cells = raw[0].split("\t") if len(raw) == 1 else []
        if len(cells) != width:  # a quoted field contains a line break or a tab
            # Or one quote is in a row and the next in a later one: then all of these rows are complete.
            is_telling = is_telling or width == 1 or any(line.count("\t") != width - 1 for line in raw if line.strip())
            continue
        num_rows += 1
        for cell, value in zip(cells, row, strict=True):
            if '"' in cell and not _WRAPPED.fullmatch(cell):
                return False
            is_telling = is_telling or '"' in value
            can_be_all = can_be_all and ('"' in cell or _NUMBER.fullmatch(cell) is not None)


# -- what the schema of a Parquet file names, as the `datasets` library writes it -----------------------------

_LISTS = ("Sequence", "List", "LargeList")
_MISSING = -1


JSON_TEXT = ("JSON",)  # instead of class names: values are JSON


def class_names(metadata: Mapping[bytes, bytes] | None) -> dict[str, Sequence[str]]:
    """Returns the class names of each column that has them, or JSON_TEXT, from the metadata of an Arrow schema."""
    try:
        facts = json.loads((metadata or {}).get(b"huggingface", b"{}"))
        features = facts["info"]["features"]
        return {name: names for name, feature in features.items() if (names := _names(feature))}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def _names(feature: Any) -> Sequence[str] | None:
    """The names of a feature: {"names", "_type": "ClassLabel"}, or a list of such; [feature] in old versions."""
    if isinstance(feature, list) and len(feature) == 1:
        return _names(feature[0])
    if not isinstance(feature, dict):
        return None
    if feature.get("_type") in _LISTS:
        return _names(feature.get("feature"))
    if feature.get("_type") == "Json":
        return JSON_TEXT
    names = feature.get("names") if feature.get("_type") == "ClassLabel" else None
    return names if isinstance(names, list) and names and all(isinstance(name, str) for name in names) else None


def named_value(value: Any, names: Sequence[str]) -> tuple[Any, str | None]:
    """Returns the class name of an integer, the names of a list of integers, or what a JSON text holds.

    The second result is the reason why there is none, with the value as it is.
    """
    if names is JSON_TEXT:
        return _decoded(value)
    if isinstance(value, list):
        found = [named_value(one, names) for one in value]
        return [name for name, _ in found], next((reason for _, reason in found if reason is not None), None)
    if value is None or isinstance(value, str) or value == _MISSING:
        return None if value == _MISSING else value, None
    if isinstance(value, int) and 0 <= value < len(names):
        return names[value], None
    return value, f"{str(value)[:20]} is none of the {len(names)} classes that the file names"


def _decoded(value: Any) -> tuple[Any, str | None]:
    if not isinstance(value, str):
        return value, None
    try:
        return json.loads(value), None
    except (ValueError, RecursionError) as error:
        return value, f"is not the JSON that the file declares: {error}"


# -- rows ---------------------------------------------------------------------------------------------------

_PARQUET_ROWS = 1024
_COPY_BYTES = 1 << 20


@dataclass(slots=True)  # not frozen: a large file has many
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


def header_of(path: Path | str, records: Iterator[Record]) -> list[str]:
    """Returns the cells of the first row. Raises RowErrors with those of all rows if it is invalid, InputError if none.

    An invalid first row would leave the columns unknown.
    """
    first = next(records, None)
    if first is None:
        raise InputError(f"{path} is empty.")
    if first.faults:
        raise RowErrors([fault for record in chain([first], records) for fault in record.faults])
    return [cell.strip() for cell in first.cells]


def name_cells(records: Iterable[Record], header: Sequence[str]) -> Iterator[Record]:
    """Yields the rows of a csv or tsv file with their cells by column name; a row of another width has an error."""
    for record in records:
        count = len(record.cells)
        if record.faults:
            yield record
        elif count != len(header):
            reason = f"has {count} column{'s' * (count != 1)}, not {len(header)}"
            yield Record(record.file, record.line, record.cells, faults=(record.fault(None, reason),))
        else:
            yield Record(record.file, record.line, (), dict(zip(header, record.cells, strict=True)))


def first_names(path: Path | str, kind: str) -> list[str]:
    """Returns the column names of a table or of its first record; [] if it cannot be read."""
    if kind == "parquet":
        return parquet_columns(path)
    first = next(read_records(path, kind), None)
    if first is None or first.faults:
        return []
    return [cell.strip() for cell in first.cells] or list(first.named)


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
        for record in _read_tsv(path, iter([line])):
            width = width or len(record.cells)
            yield record


def _bad(path: Path | str, line: int, reason: str | None, column: str | None = None) -> Record:
    return Record(str(path), line, faults=(RowError(str(path), line, column, reason or ""),))


def _read_tsv(path: Path | str, lines: Iterator[Line], dialect: Dialect | None = None) -> Iterator[Record]:
    for line in lines:
        if line.fault:
            yield _bad(path, line.number, line.fault)
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
    feed, file = _LineFeed(lines), str(path)
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
            yield _bad(path, first.number, reason)
            continue
        first = feed.taken[0]
        faults = [RowError(file, line.number, None, line.fault) for line in feed.taken if line.fault]
        if faults or first.text.strip():
            yield Record(file, first.number, cells, faults=tuple(faults))


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
            yield _bad(path, line.number, line.fault)
        elif line.text.strip():
            named, reason = parse_object(line.text)
            bad = None if reason is None else _bad(path, line.number, reason)
            yield bad or Record(str(path), line.number, named=named)


def _read_json(path: Path | str) -> Iterator[Record]:
    """Yields the objects of a .json file: entries of an array, or one after another."""
    for number, value in read_values(path):
        if isinstance(value, dict):
            yield Record(str(path), number, named=value)
        else:
            yield _bad(path, number, f"expected a JSON object, not {json_kind(value)}")


def parse_object(text: str) -> tuple[dict[str, Any], str | None]:
    """Returns the JSON object in `text`, and the reason if there is none."""
    try:
        value = json.loads(text, object_pairs_hook=deduplicated)
    except json.JSONDecodeError as error:
        return {}, f"not valid JSON: {error.msg} at character {error.pos + 1}"
    except RecursionError:
        return {}, "not usable JSON: nested too deeply"
    except (RepeatedKeyError, ValueError) as error:  # also a number of thousands of digits
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


# -- fastText: a text per line, with its labels as words that begin with `__label__` -------------------------

MARK = "__label__"
COLUMNS = ("text", "label")
_LINES_SEEN = 20


def is_fasttext(path: Path | str) -> bool:
    """Whether a file without the name of a table has such lines: one of the first, and each of them a label."""
    if str(path) == STDIN or not Path(path).is_file() or file_format(path, default="txt") != "txt":
        return False
    lines = [line.text for line in islice(read_lines(path), _LINES_SEEN) if line.text.strip()]
    return bool(lines) and lines[0].lstrip().startswith(MARK) and all(MARK in line for line in lines)


def read_fasttext(path: Path | str) -> Iterator[Record]:
    """Yields each line as {"text", "label": its labels}; blank lines are skipped."""
    for line in read_lines(path):
        if line.fault:
            yield _bad(path, line.number, line.fault)
        elif line.text.strip():
            labels, text = split_line(line.text)
            yield Record(str(path), line.number, named={"text": text, "label": labels or None})


def split_line(line: str) -> tuple[list[str], str]:
    """Returns the labels of a line, and its text without them; the spaces within the text stay."""
    labels, rest = [], line.strip()
    while rest.startswith(MARK):
        word = rest.split(None, 1)
        labels.append(word[0].removeprefix(MARK))
        rest = word[1] if len(word) > 1 else ""
    if MARK in rest:
        words = rest.split()
        labels += [word.removeprefix(MARK) for word in words if word.startswith(MARK)]
        rest = " ".join(word for word in words if not word.startswith(MARK))
    return labels, rest
