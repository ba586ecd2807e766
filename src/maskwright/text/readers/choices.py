"""Reads multiple-choice examples: SWAG (csv), and JSON lines with `context`, `question`, `choices`, `label`.

All examples of a file must have the same number of choices. In SWAG (Zellers et al. 2018, arXiv:1808.05326) the choices
are sentence endings; in CosmosQA's csv they are answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...core.errors import InputError, RowError, RowErrors
from ..formats.cells import json_kind, read_text
from ..formats.files import file_format
from ..formats.records import Record, first_names, header_of, name_cells, read_records
from .tables import FoundRows, Reader, check_rows

# (context, question, prefix of the choice columns, which are numbered from 0)
_CSV_LAYOUTS = (("sent1", "sent2", "ending"), ("context", "question", "answer"), ("context", "question", "choice"))


@dataclass(frozen=True, slots=True)
class ChoiceRow:
    """One multiple-choice example.

    context: may be empty; question: may be empty; in SWAG the beginning of every ending; choices: at least two; label:
    index of the correct choice from 0, or None; key: the example's ID in the file, or "".
    """

    context: str
    question: str
    choices: tuple[str, ...]
    label: int | None
    line: int
    file: str
    key: str = ""

    @property
    def text(self) -> str:
        """The context, or the question if there is no context."""
        return self.context if self.context.strip() else self.question

    @property
    def text_pair(self) -> str | None:
        """The question if both context and question have text, else None."""
        return self.question if self.context.strip() and self.question.strip() else None

    def pairs(self) -> list[tuple[str, str]]:
        """Returns (first text, second text) for each choice; the question precedes the choice as in BERT on SWAG.

        Without a context the question is the first text.
        """
        if not self.context.strip():
            return [(self.question, choice) for choice in self.choices]
        return [(self.context, f"{self.question} {choice}".strip()) for choice in self.choices]


def is_choices(path: Path | str) -> bool:
    """Whether a .csv or .jsonl file contains multiple-choice examples, by the names in its first row."""
    kind = file_format(path, default="txt")
    if kind not in ("csv", "jsonl") or not Path(path).is_file():
        return False
    names = first_names(path, kind)
    return "choices" in names if kind == "jsonl" else _layout(names) is not None


def read_choices(path: Path | str, *, with_labels: bool | None = True, skip_bad_rows: bool = False) -> FoundRows:
    """Read multiple-choice examples from .csv or .jsonl, plain or compressed.

    Args:
        path: File to read.
        with_labels: True: every row needs a label; False: ignore labels; None: read labels where present.
        skip_bad_rows: Skip invalid rows and list them in `skipped`.

    Raises:
        RowErrors: all invalid rows (no text, fewer than two choices, wrong number of choices, label out of range).
        InputError: unknown format or header, or no rows.
        MissingFileError: no such file.
    """
    kind = file_format(path)
    if kind not in ("csv", "jsonl"):
        raise InputError(f"{path} is .{kind}: multiple-choice examples are read from .csv (SWAG) and .jsonl.")
    faults: list[RowError] = []
    records = read_records(path, kind)
    found = _read_rows(records if kind == "jsonl" else _named(path, records, with_labels), with_labels, faults)
    rows = _of_one_size(found, faults)
    check_rows(path, rows, faults, skip_bad_rows)
    return FoundRows(rows, faults)


def choices_of(items: Sequence[Mapping[str, Any]], *, with_labels: bool = True) -> list[ChoiceRow]:
    """Returns examples from in-memory rows with `context`, `question`, `choices` and optionally `label`.

    Rows are validated as in a file; their "line" counts from 1. Raises RowErrors with every invalid row, InputError if
    there are none.
    """
    faults: list[RowError] = []
    records = (Record("the rows", number, named=dict(named)) for number, named in enumerate(items, start=1))
    rows = _of_one_size(_read_rows(records, with_labels, faults), faults)
    if faults:
        raise RowErrors(faults)
    if not rows:
        raise InputError("There are no rows: pass at least one.")
    return rows


def _read_rows(records: Iterable[Record], with_labels: bool | None, faults: list[RowError]) -> list[ChoiceRow]:
    rows = []
    for record in records:
        bad = list(record.faults)
        row = None if bad else _row(record, with_labels, bad)
        rows += [] if row is None else [row]
        faults += bad
    return rows


def _of_one_size(found: Sequence[ChoiceRow], faults: list[RowError]) -> list[ChoiceRow]:
    """Keeps rows with the most common number of choices, the first of ties."""
    sizes = Counter(len(row.choices) for row in found)
    expected = sizes.most_common(1)[0][0] if sizes else 0
    for row in found:
        if len(row.choices) != expected:
            reason = f"there are {len(row.choices)} choices, and {expected} is what most rows have"
            faults.append(RowError(row.file, row.line, "choices", reason))
    faults.sort(key=lambda fault: fault.line)
    return [row for row in found if len(row.choices) == expected]


def _named(path: Path | str, records: Iterator[Record], with_labels: bool | None) -> Iterator[Record]:
    """Yields the rows of a csv file as if each were a JSON object with the standard names."""
    header = header_of(path, records)
    layout = _layout(header)
    if layout is None:
        raise InputError(f"{path} does not have the SWAG columns sent1, sent2, ending0, ending1, ... and label.")
    if with_labels and "label" not in header:
        raise InputError(f"{path} has no column 'label': without labels, rows can only be predicted.")
    context, question, columns = layout
    key = next((name for name in ("id", "video-id") if name in header), "")
    for record in name_cells(records, header):
        cells = record.named
        choices = [cells[column] for column in columns if not record.faults]
        while choices and not choices[-1]:  # a row may use fewer columns than another
            choices.pop()
        named = {"context": cells.get(context), "question": cells.get(question), "choices": choices}
        yield replace(record, named=named | {"id": cells.get(key), "label": cells.get("label")})


def _layout(header: Sequence[str]) -> tuple[str, str, list[str]] | None:
    """Returns the columns of context, question and choices (stem0, stem1, ...); None if any is missing."""
    for context, question, stem in _CSV_LAYOUTS:
        columns: list[str] = []
        while f"{stem}{len(columns)}" in header:
            columns.append(f"{stem}{len(columns)}")
        if context in header and question in header and columns:
            return context, question, columns
    return None


def _row(record: Record, with_labels: bool | None, faults: list[RowError]) -> ChoiceRow | None:
    """Returns the example, or None; errors are added to `faults`."""
    named = record.named
    texts = {name: "" if named.get(name) is None else named[name] for name in ("context", "question")}
    for name, text in texts.items():
        if not (isinstance(text, str) and not text.strip()) and (reason := read_text(text)[1]) is not None:
            faults.append(record.fault(name, reason))
    if not faults and not any(text.strip() for text in texts.values()):
        faults.append(record.fault("context", "neither context nor question has text"))
    choices = named.get("choices")
    if not isinstance(choices, list):
        reason = "is missing" if choices is None else f"is {json_kind(choices)}, not a list"
        faults.append(record.fault("choices", reason))
        return None
    if len(choices) < 2:
        faults.append(record.fault("choices", f"has {len(choices)} choices, at least two are required"))
    for number, choice in enumerate(choices):
        if (reason := read_text(choice)[1]) is not None:
            faults.append(record.fault("choices", f"choice {number}: {reason}"))
    label = None
    if with_labels or (with_labels is None and named.get("label") not in (None, "")):
        label, reason = _label(named.get("label"), len(choices))
        if reason is not None:
            faults.append(record.fault("label", reason))
    if faults:
        return None
    key = "" if named.get("id") is None else str(named["id"])
    return ChoiceRow(texts["context"], texts["question"], tuple(choices), label, record.line, record.file, key)


def _label(cell: Any, count: int) -> tuple[int | None, str | None]:
    """Returns the index of the correct choice, or an error."""
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return None, "the label is missing"
    if isinstance(cell, bool) or not isinstance(cell, (int, str)):
        return None, f"is {json_kind(cell)}, not the index of a choice"
    text = str(cell).strip()
    if not (text.isascii() and text.isdecimal()):
        return None, f"'{text[:60]}' is not the index of a choice (from 0)"
    if len(text) > 9 or int(text) >= count:
        return None, f"{text[:60]} is out of range for {count} choices (counted from 0)"
    return int(text), None


READER = Reader(
    "choices",
    "multiple-choice rows",
    "choices with the number of the right one: SWAG .csv, or .jsonl with context, choices, label",
    "test.jsonl",
    recognizes=lambda path, columns: not columns and is_choices(path),
    read=lambda path, columns, skip_bad_rows, labeled: read_choices(
        path, with_labels=labeled or None, skip_bad_rows=skip_bad_rows
    ),
)
