"""Reads questions of tables: a row or JSON object each, with question, context, answer and optionally answer_start.

A row becomes the record of a question as SQuAD has it. An answer is a text, or, in `answers`, a list of texts or
{"text": [...], "answer_start": [...]}, in a table as JSON or as pandas prints it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core.errors import InputError, RowErrors
from ...core.progress import note
from ..formats.cells import list_in
from ..formats.column_names import LABEL_NAMES
from ..formats.dialect import Dialect
from ..formats.files import file_format
from ..formats.records import Record, parquet_columns, read_records

ROLES = ("question", "context", "answer", "answer_start", "id")
_ANSWERS = ("answers", "answer", "answer_text", "answers.text")  # in order of precedence
_STARTS = ("answer_start", "answers.answer_start")
_ARRAYS = re.compile(
    r"\{\s*'text':\s*(?:array\()?(?P<text>\[.*\])(?:,\s*dtype=\w+\))?,"
    r"\s*'answer_start':\s*(?:array\()?(?P<start>\[[^\]]*\])(?:,\s*dtype=\w+\))?\s*\}",
    re.DOTALL,
)
_BOOLS = {"true": True, "1": True, "false": False, "0": False, "": None}


def has_questions(names: Sequence[str]) -> bool:
    """Whether columns are those of questions with answers, and not those of labeled pairs."""
    found = {name.casefold() for name in names}
    return {"question", "context"} <= found and answer_column(names) is not None and found.isdisjoint(LABEL_NAMES)


def answer_column(names: Sequence[str]) -> str | None:
    """The column of the answer; `text` counts where `answer_start` is there too."""
    known = next((name for wanted in _ANSWERS for name in names if name.casefold() == wanted), None)
    return known or ("text" if {"text", "answer_start"} <= set(names) else None)


def is_question_table(path: Path | str) -> bool:
    """Whether a file of rows or JSON objects contains questions with answers, by its first row."""
    kind = file_format(path, default="txt")
    if kind == "txt" or not Path(path).is_file():
        return False
    if kind == "parquet":
        return has_questions(parquet_columns(path))
    first = next(read_records(path, kind), None)
    if first is None or first.faults:
        return False
    return has_questions([cell.strip() for cell in first.cells] or list(first.named))


def question_records(path: Path | str, columns: Mapping[str, str] | None = None) -> Iterator[Record]:
    """Yields each row as {"id", "question", "context", "answers", "is_impossible"}.

    columns: role -> column name, of ROLES; default: recognized names. Raises InputError for a missing column.
    """
    check_roles(columns)
    kind = file_format(path)
    dialect = Dialect()
    records = read_records(path, kind, dialect=dialect)
    if kind in ("csv", "tsv"):
        records = _named(path, records, columns or {})
    for record in records:
        yield record if record.faults else replace(record, named=_as_squad(record.named, columns or {}))
    for remark in dialect.remarks:
        note(remark)


def check_roles(columns: Mapping[str, str] | None) -> None:
    """Raises InputError for a role that questions do not have."""
    for role in columns or {}:
        if role not in ROLES:
            raise InputError(f"Unknown column role '{role}' of questions: use {', '.join(ROLES)}.")


def _named(path: Path | str, records: Iterator[Record], columns: Mapping[str, str]) -> Iterator[Record]:
    """Yields the rows of a table with their column names."""
    first = next(records, None)
    if first is None:
        raise InputError(f"{path} is empty.")
    if first.faults:
        raise RowErrors([*first.faults, *(fault for record in records for fault in record.faults)])
    header = [cell.strip() for cell in first.cells]
    plain = [name.casefold() if name.casefold() in ROLES else name for name in header]
    for name in [columns.get(role, role) for role in ("question", "context")]:
        if name not in header and name not in plain:
            raise InputError(
                f"{path} has no column '{name}': questions need question, context and answer, and the columns are "
                f"{', '.join(repr(cell[:40]) for cell in header[:20])}. Map others with --columns question=NAME."
            )
    names = plain if not columns else header
    for record in records:
        if not record.faults and len(record.cells) != len(header):
            count = len(record.cells)
            fault = record.fault(None, f"has {count} {'column' if count == 1 else 'columns'}, not {len(header)}")
            yield Record(record.file, record.line, faults=(fault,))
        else:
            yield replace(record, cells=(), named=dict(zip(names, record.cells, strict=False)))


def _as_squad(named: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """The record of a question as SQuAD has it. A cell that cannot be read stays, and is reported as it is."""
    found = {role: named.get(columns.get(role, role)) for role in ("id", "question", "context")}
    found["id"] = None if found["id"] == "" else found["id"]
    name = columns.get("answer") or answer_column(list(named))
    answers = named.get(name) if name is not None else None
    starts = next((named[one] for one in (columns.get("answer_start", ""), *_STARTS) if one in named), None)
    is_impossible = _flag(named.get("is_impossible"))
    if isinstance(answers, str):
        answers = _answers_in(answers) if answers.strip() else None
    if isinstance(answers, str) or (isinstance(answers, list) and starts not in (None, "")):
        answers = _with_starts(answers, starts)
    return {**found, "answers": answers, "is_impossible": is_impossible}


def _answers_in(cell: str) -> Any:
    """The answers in a cell: a list, an object of two lists, or the text itself."""
    text = cell.strip()
    if text.startswith("{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            lists = _ARRAYS.fullmatch(text)
            value = None if lists is None else {"text": list_in(lists["text"]), "answer_start": list_in(lists["start"])}
        if isinstance(value, dict) and "text" in value:
            return value
    found = list_in(text)
    return cell if found is None else found


def _with_starts(answers: str | list[Any], starts: Any) -> Any:
    """Answers with their first characters; a cell may hold a number, or a list."""
    texts = [answers] if isinstance(answers, str) else answers
    if isinstance(starts, str):
        starts = list_in(starts) or [starts]
    given = starts if isinstance(starts, list) else [starts]
    if len(given) != len(texts):
        return {"text": texts, "answer_start": given}  # reported: two lists of equal length are needed
    return [{"text": text, "answer_start": _integer(start)} for text, start in zip(texts, given, strict=True)]


def _integer(value: Any) -> Any:
    """The integer in a cell, None for an empty one; anything else as it is."""
    text = str(value).strip() if isinstance(value, (str, float)) else None
    if text is None:
        return value
    if not text or text == "nan":
        return None
    whole = text.removesuffix(".0")
    return int(whole) if re.fullmatch(r"-?\d{1,15}", whole) else value


def _flag(value: Any) -> Any:
    """The truth value in a cell, None for an empty one; anything else as it is."""
    return _BOOLS.get(value.strip().casefold(), value) if isinstance(value, str) else value
