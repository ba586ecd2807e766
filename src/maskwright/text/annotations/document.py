"""A text with what people marked in it, as the files of annotation tools record it, and helpers to read these.

Offsets are still those of the file; `reader` checks them and makes rows. A record that cannot be read is a RowError;
what is skipped on purpose is counted by name.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ...core.errors import InputError, RowError
from ..formats.cells import read_text
from ..formats.files import bare_suffix, file_format, open_bytes, read_lines, read_values
from ..formats.records import json_kind, read_records

Offsets = tuple[int, int]
_BEGINNING = 64  # bytes
_ONLY_TEXTS = "only labeled spans and classes of texts can be read: export a project of text labels"


@dataclass(frozen=True, slots=True)
class LabeledSpan:
    """A labeled part of a text.

    text: what the file says is there, or None; parts: of a discontinuous span, else (); line: its own, 0 for that of
    the record.
    """

    start: int
    end: int
    label: str
    text: str | None = None
    parts: tuple[Offsets, ...] = ()
    line: int = field(default=0, compare=False)


@dataclass(slots=True)
class Annotation:
    """What one annotator said about a text.

    classes: name of the question -> chosen classes; rejected: classes that do not apply; annotators: all names of the
    one annotator; is_reference: whether it counts alone; is_of_spans: whether no spans means that there are none.
    """

    spans: list[LabeledSpan] = field(default_factory=list)
    classes: dict[str, list[str]] = field(default_factory=dict)
    rejected: list[str] = field(default_factory=list)
    annotators: tuple[str, ...] = ()
    is_reference: bool = False
    is_of_spans: bool = True


@dataclass(slots=True)
class Document:
    """A text and what was said about it; no annotations: nobody did.

    words: offsets of its words where the file has words, else None; proof: more parts with their recorded text; tags:
    the tag of each word, instead of spans; unknown: words that nobody decided about; has_lines: each line is a sentence
    of its own; key: equal for entries about one text; is_partial: several annotations of one text are parts of one;
    has_bad_spans: some cannot be used; is_counted: it is counted as left out; span_file: the other file that has the
    spans, if any.
    """

    text: str
    line: int  # or number of the record, where it has no line of its own
    file: str
    place: str = ""
    annotations: list[Annotation] = field(default_factory=list)
    words: list[Offsets] | None = None
    proof: list[tuple[int, int, str]] = field(default_factory=list)
    tags: list[str] | None = None
    unknown: frozenset[Offsets] = frozenset()
    has_lines: bool = False
    key: Any = None
    is_partial: bool = False
    has_bad_spans: bool = False
    is_counted: bool = False
    span_file: str = ""

    def fault(self, column: str | None, reason: str, line: int = 0) -> RowError:
        """Returns a RowError for this document, or for the line of a span in the file of the spans."""
        if line:
            return RowError(self.span_file, line, None, reason)
        return RowError(self.file, self.line, column, f"{self.place}: {reason}" if self.place else reason)


@dataclass(slots=True)
class Reading:
    """How a file is read: roles, as those of --columns; what is skipped of it, counted by name; and other notes."""

    path: Path
    roles: Mapping[str, str]
    left_out: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def wrong_project(self, line: int, what: str, key: str) -> InputError:
        """The error for an export without labeled texts."""
        return InputError(f"{self.path}:{line}: '{key}': {what}; {_ONLY_TEXTS}.")


Parsed = Iterator[Document | RowError]


def json_values(path: Path) -> Iterator[tuple[int, Any] | RowError]:
    """Yields line or number, and value of each record of JSON lines or of a .json file; or why it cannot be read."""
    if _has_lines_of_pairs(path):
        yield from _lines_of_values(path)
        return
    if bare_suffix(path) == ".json":
        yield from read_values(path)
        return
    for record in read_records(path, "jsonl"):
        if record.faults:
            yield from record.faults
        else:
            yield record.line, record.named


def _has_lines_of_pairs(path: Path) -> bool:
    """Whether the first line is [text, {...}], so that each line of the file is a value of its own."""
    with open_bytes(path) as handle:  # an array of records may be one long line, which is not read here
        if not re.match(rb'(\xef\xbb\xbf)?\[\s*"', handle.read(_BEGINNING)):
            return False
    try:
        value = json.loads(next(read_lines(path)).text)
    except (ValueError, RecursionError):
        return False
    return len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict)


def _lines_of_values(path: Path) -> Iterator[tuple[int, Any] | RowError]:
    for line in read_lines(path):
        try:
            if line.text.strip() and not line.fault:
                yield line.number, json.loads(line.text)
        except (ValueError, RecursionError) as error:
            yield RowError(str(path), line.number, None, f"not usable JSON: {error}")
        if line.fault:
            yield RowError(str(path), line.number, None, line.fault)


def json_objects(reading: Reading) -> Iterator[tuple[int, Mapping[str, Any]] | RowError]:
    """As `json_values`, objects only."""
    for found in json_values(reading.path):
        if isinstance(found, RowError) or isinstance(found[1], dict):
            yield found
        else:
            yield RowError(str(reading.path), found[0], None, f"expected a JSON object, not {json_kind(found[1])}")


class BadRecordError(Exception):
    """A record that cannot be read: field and reason."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(reason)
        self.column, self.reason = column, reason


def is_offset(value: Any) -> bool:
    """Whether a JSON value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def make_span(start: Any, end: Any, label: Any, column: str, text: Any = None) -> LabeledSpan:
    """Returns a span. Raises BadRecordError for offsets and labels of another type."""
    for name, value in (("start", start), ("end", end)):
        if not is_offset(value):
            found = "is missing" if value is None else f"is {json_kind(value)}, not a whole number"
            raise BadRecordError(column, f"the {name} of a span {found}")
    if is_offset(label):
        label = str(label)
    if not isinstance(label, str) or not label.strip():
        found = "has no label" if label in (None, "") else f"has a label that is {json_kind(label)}, not text"
        raise BadRecordError(column, f"the span {start}-{end} {found}")
    return LabeledSpan(start, end, label.strip(), text if isinstance(text, str) else None)


def make_spans(entries: Any, column: str, what: str, texts: bool = False, label: Any = None) -> list[LabeledSpan]:
    """Returns the spans of a list: [start, end, label], or objects with these keys (and the text, if `texts`).

    what: name of an entry, in errors; label: for an object without one. Raises BadRecordError for other entries.
    """
    spans = []
    for entry in list_of(entries, column):
        if isinstance(entry, dict):
            found = (entry.get("start"), entry.get("end"), entry.get("label", label))
            spans.append(make_span(*found, column, entry.get("text") if texts else None))
        elif isinstance(entry, list) and len(entry) >= 3:
            spans.append(make_span(entry[0], entry[1], entry[2], column))
        else:
            raise BadRecordError(column, f"{what} is {json_kind(entry)}, not an object or [start, end, label]")
    return spans


def text_of(value: Any, column: str) -> str:
    """Returns a text that is not empty. Raises BadRecordError for other values."""
    if not isinstance(value, str):
        raise BadRecordError(column, "is missing" if value is None else f"is {json_kind(value)}, not text")
    reason = read_text(value)[1]
    if reason is not None:
        raise BadRecordError(column, reason)
    return value


def list_of(value: Any, column: str) -> list[Any]:
    """Returns a list; [] for null."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadRecordError(column, f"is {json_kind(value)}, not a list")
    return value


def parse_each(
    reading: Reading,
    found: Iterable[tuple[int, Any] | RowError],
    read: Callable[[int, Any], Document | None],
    place: Callable[[int, Any], str] = lambda line, record: "",
) -> Parsed:
    """Yields the documents that `read` makes of records, with its errors as faults of their records.

    place: where a record is, besides its line.
    """
    for one in found:
        if isinstance(one, RowError):
            yield one
            continue
        where = place(*one)
        try:
            document = read(*one)
        except BadRecordError as bad:
            reason = f"{where}: {bad.reason}" if where else bad.reason
            yield RowError(str(reading.path), one[0], bad.column or None, reason)
            continue
        if document is not None:
            document.place = where
            yield document


def id_place(name: str) -> Callable[[int, Any], str]:
    """Names a record by its ID, as in "task 3"."""
    return lambda line, record: f"{name} {record['id']}" if isinstance(record.get("id"), (int, str)) else ""


MEDIA = ("image", "audio", "video", "pdf", "timeseries", "ts")


def annotator_names(value: Any) -> tuple[str, ...]:
    """The names of an annotator: of a user its e-mail address first, then its number."""
    if isinstance(value, dict):
        names = [value.get(key) for key in ("email", "username", "first_name", "id")]
        return tuple(str(name) for name in names if name not in (None, ""))
    return () if value in (None, "") else (str(value),)


def aligned(forms: Sequence[str], text: str, column: str) -> list[Offsets]:
    """Returns the offsets of words in their text. Raises BadRecordError for a word that is not there."""
    words, at = [], 0
    for form in forms:
        start = text.find(form, at)
        if start < 0 or text[at:start].strip():
            raise BadRecordError(column, f"the word {form[:40]!r} does not follow in the text after character {at}")
        at = start + len(form)
        words.append((start, at))
    return words


_SAMPLE = 200  # records in which a first label is looked for


@dataclass(frozen=True)
class Sample:
    """The beginning of a file. header: of a table; records: first JSON values, or none."""

    path: Path
    suffix: str
    first_line: str = ""
    header: Sequence[str] = ()
    records: Sequence[Any] = ()

    @property
    def first(self) -> Mapping[str, Any]:
        """The first record; {} if it is no object."""
        return self.records[0] if self.records and isinstance(self.records[0], dict) else {}


def sample_of(path: Path) -> Sample:
    """Reads the beginning of a file or folder. Nothing is found in a file that is not one of text."""
    suffix = bare_suffix(path)
    if path.is_dir() or suffix in (".ann", ".spacy"):
        return Sample(path, suffix)
    if not path.is_file():
        return Sample(path, "")
    kind = file_format(path, default="txt") if suffix not in _OTHER_FILES else "other"
    if kind in ("csv", "tsv", "txt"):
        first = next(read_lines(path), None)
        line = "" if first is None or first.fault else first.text
        header: Sequence[str] = ()
        if kind in ("csv", "tsv") and "annotat" in line:
            row = next(read_records(path, kind), None)
            header = () if row is None or row.faults else [cell.strip() for cell in row.cells]
        return Sample(path, suffix, line, header)
    if kind == "jsonl":
        records = (found[1] for found in json_values(path) if not isinstance(found, RowError))
        return Sample(path, suffix, records=list(islice(records, _SAMPLE)))
    return Sample(path, suffix)


_OTHER_FILES = (".zip", ".tar", ".tgz", ".bz2", ".7z", ".rar", ".xlsx", ".xls", ".ods", ".doc", ".docx", ".pdf", ".odt")
