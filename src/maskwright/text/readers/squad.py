"""Reads questions: SQuAD JSON (v1.1 and v2.0), or tables and JSON objects with question, context and answers.

Rajpurkar et al. 2016 and 2018. A question with an empty list of answers is unanswerable. Every invalid entry is
reported with file, number, ID and reason; the "line" in a SQuAD file is the question's number in it, from 1. A row of a
table becomes the record of a question as SQuAD has it: an answer is a text, or, in `answers`, a list of texts or
{"text": [...], "answer_start": [...]}, in a table as JSON or as pandas prints it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import InputError, RowError
from ...core.progress import note
from ..formats.cells import LABEL_NAMES, list_in, read_text
from ..formats.files import STDIN, bare_suffix, file_format, has_entries, read_array, starts_with
from ..formats.records import Dialect, Record, first_names, header_of, json_kind, name_cells, read_records
from ..words import whole_words, word_edges
from .tables import FoundRows, Reader, check_rows

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
    """Yields the rows of a table with their column names, recognized ones in lower case."""
    header = header_of(path, records)
    plain = [name.casefold() if name.casefold() in ROLES else name for name in header]
    for name in [columns.get(role, role) for role in ("question", "context")]:
        if name not in header and name not in plain:
            raise InputError(
                f"{path} has no column '{name}': questions need question, context and answer, and the columns are "
                f"{', '.join(repr(cell[:40]) for cell in header[:20])}. Map others with --columns question=NAME."
            )
    return name_cells(records, header if columns else plain)


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


# -- whether an answer is at its stated character, and the nearest match if not -----------------------------


_MAX_COMPARED = 100  # answer characters that are compared: bounds the search time
_MIN_SHARED = 3  # minimum number of characters shared with the answer


class ContextSpan(NamedTuple):
    """A span of a context: its text and its first character."""

    text: str
    start: int


def nearest_match(answer: str, context: str, start: int = 0) -> ContextSpan | None:
    """Returns the span of `context` most similar to `answer`: the same text nearest to `start`, else ignoring case,
    else the words around the longest common substring; None if they share nothing.
    """
    answer = answer.strip()
    if not answer:
        return None
    lower, wanted = _lowered(context), _lowered(answer)
    for text, piece in ((context, answer), (lower, wanted)):
        found = _nearest_occurrence(piece, text, start)
        if found is not None:
            return ContextSpan(context[found : found + len(piece)], found)
    matcher = SequenceMatcher(None, lower, wanted[:_MAX_COMPARED], autojunk=False)
    shared = matcher.find_longest_match()
    if shared.size < min(_MIN_SHARED, len(wanted)):
        return None
    first = max(0, shared.a - shared.b)
    last = min(len(context), max(first + len(wanted), shared.a + shared.size))
    begin, end = whole_words(word_edges(context), np.array([[first, last]]))[0].tolist()
    return ContextSpan(context[begin:end], begin)


def position_error(answer: str, context: str, start: int) -> str | None:
    """Returns why an answer is not at character `start` of its context, or None if it is."""
    if start >= 0 and context.startswith(answer, start):
        return None
    if start < 0:
        what = f"starts at {start}, before its context"
    elif start >= len(context):
        what = f"starts at character {start}, beyond the end of its context ({len(context):,} characters)"
    else:
        what = f"is not in its context at character {start}"
    return f"the answer {quoted(answer)} {what}; {_hint(answer, context, start)}"


def _hint(answer: str, context: str, start: int = 0) -> str:
    nearest = nearest_match(answer, context, start)
    return f"the nearest match is {quoted(nearest.text)} at character {nearest.start}" if nearest else "no similar text"


def find_answer(answer: str, context: str) -> tuple[int, str | None]:
    """Returns the first character of an answer without a stated position, and an error (or None).

    Prefers the first occurrence that begins and ends at word boundaries, else the first occurrence.
    """
    first = place = context.find(answer)
    if first < 0:
        return 0, f"the answer {quoted(answer)} is not in its context; {_hint(answer, context)}"
    edges = word_edges(context)
    begin, last = len(answer) - len(answer.lstrip()), len(answer.rstrip()) - 1
    while place >= 0 and begin <= last:
        if edges[place + begin, 0] == place + begin and edges[place + last, 1] == place + last + 1:
            return place, None
        place = context.find(answer, place + 1)
    return first, None


def quoted(text: str, limit: int = 60) -> str:
    """Formats text for a message: quoted, on one line, truncated to `limit` characters."""
    line = " ".join(text.split())
    return f"'{line}'" if len(line) <= limit else f"'{line[: limit - 3]}...'"


def _lowered(text: str) -> str:
    """Lowercases each character separately so that offsets do not change."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)


def _nearest_occurrence(piece: str, text: str, start: int) -> int | None:
    """Returns the occurrence of `piece` in `text` nearest to `start`, or None."""
    start = min(max(start, 0), len(text))
    before, after = text.rfind(piece, 0, start + len(piece)), text.find(piece, start)
    found = [place for place in (before, after) if place >= 0]
    return min(found, key=lambda place: abs(place - start)) if found else None


class ReferenceAnswer(NamedTuple):
    """A reference answer: its text and its first character in the context."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """End character (exclusive)."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a context.

    answers: reference answers, () if unanswerable, None if the file has no answers; line: its line, or in a SQuAD file
    its number from 1. Questions of one paragraph share the context string.
    """

    id: str
    question: str
    context: str
    answers: tuple[ReferenceAnswer, ...] | None
    line: int
    file: str

    @property
    def text(self) -> str:
        """The question, which is the first text of a row."""
        return self.question

    @property
    def text_pair(self) -> str:
        """The context, which is the second text of a row."""
        return self.context

    @property
    def label(self) -> list[str] | None:
        """The texts of the reference answers; None if unknown."""
        return None if self.answers is None else [gold.text for gold in self.answers]

    @property
    def is_impossible(self) -> bool:
        """Whether it is known to be unanswerable."""
        return self.answers == ()


def read_questions(
    path: Path | str,
    *,
    need_answers: bool = True,
    skip_bad_rows: bool = False,
    columns: Mapping[str, str] | None = None,
) -> FoundRows:
    """Read all questions of a file, plain or compressed.

    columns: see `flat_questions.question_records`. need_answers: an entry without answers is invalid. skip_bad_rows:
    skip invalid entries and list them in `skipped` instead of raising RowErrors. Raises RowErrors (all
    invalid entries), InputError (unknown layout, or no questions), MissingFileError.
    """
    faults: list[RowError] = []
    rows = list(scan_questions(path, faults, need_answers=need_answers, columns=columns))
    check_rows(path, rows, faults, skip_bad_rows, "question")
    return FoundRows(rows, faults)


def is_questions(path: Path | str) -> bool:
    """Whether a file has the layout of SQuAD, or rows with question, context and answers and no text."""
    if str(path) != STDIN and bare_suffix(path) == ".json" and has_entries(path, "data", "paragraphs"):
        return True
    kind = file_format(path, default="txt")
    if kind == "txt" or not Path(path).is_file():
        return False
    names = first_names(path, kind)
    return has_questions(names) or (
        kind == "jsonl" and bool({"answers", "is_impossible"} & set(names)) and "text" not in names
    )


def _has_squad_layout(path: Path | str, columns: Mapping[str, str] | None) -> bool:
    """Whether a file has the layout of SQuAD, or is an object of no other layout."""
    if str(path) == STDIN or bare_suffix(path) != ".json" or starts_with(path) == "[":
        return False
    if has_entries(path, "data", "paragraphs"):
        return True
    try:
        names = first_names(path, "jsonl")
    except InputError:  # no JSON: said with the layout that is expected
        return True
    return not has_questions(names) and set(names).isdisjoint((columns or {}).values())


def scan_questions(
    path: Path | str,
    faults: list[RowError],
    *,
    need_answers: bool = True,
    columns: Mapping[str, str] | None = None,
) -> Iterator[Question]:
    """Yields valid questions while reading, with one paragraph in memory at a time; errors are added to `faults`."""
    check_roles(columns)
    if _has_squad_layout(path, columns):
        if columns:
            raise InputError(f"{path} has the layout of SQuAD, which has no columns to map: remove --columns.")
        records = _squad_records(path)
    else:
        if file_format(path) == "txt":
            raise InputError(f"{path} is not a questions file: use SQuAD .json, .jsonl, .csv, .tsv or .parquet.")
        records = question_records(path, columns)
    seen: dict[str, int] = {}
    for record in records:
        question, bad = _read_question(record, need_answers)
        earlier = seen.setdefault(question.id, record.line) if question is not None else record.line
        if question is not None and earlier != record.line:
            bad.append(record.fault("id", f"id {question.id} is a duplicate of line {earlier}"))
        faults += bad
        if question is not None and not bad:
            yield question


# -- the SQuAD layout: data > paragraphs > qas --------------------------------------------------------------


def _squad_records(path: Path | str) -> Iterator[Record]:
    """Yields each question as a record with its context; an unreadable part is a record with an error."""
    number = 0
    for place, article in enumerate(read_array(path, "data")):
        for found in _entries(article, f"data[{place}]"):
            number += 1
            if isinstance(found, str):
                yield Record(str(path), number, faults=(RowError(str(path), number, None, found),))
            else:
                yield Record(str(path), number, named=found)


def _entries(article: Any, where: str) -> Iterator[Mapping[str, Any] | str]:
    """Yields the questions of an article with their contexts, or error messages."""
    for place, paragraph in _list_in(article, "paragraphs", where):
        for inner, entry in [(place, paragraph)] if not place else _list_in(paragraph, "qas", place):
            if not inner:
                yield entry
            elif not isinstance(entry, dict):
                yield f"{inner} is {json_kind(entry)}, not an object"
            else:
                yield {**entry, "context": paragraph.get("context")}


def _list_in(parent: Any, key: str, where: str) -> list[tuple[str, Any]]:
    """Returns place and entry of the list `parent[key]`, or "" and an error."""
    if not isinstance(parent, dict):
        return [("", f"{where} is {json_kind(parent)}, not an object")]
    if not isinstance(parent.get(key), list):
        what = f".{key} is {json_kind(parent[key])}, not a list" if key in parent else f" has no {key}"
        return [("", where + what)]
    return [(f"{where}.{key}[{number}]", entry) for number, entry in enumerate(parent[key])]


# -- one question ------------------------------------------------------------------------------------------


def _read_question(record: Record, need_answers: bool) -> tuple[Question | None, list[RowError]]:
    """Returns the question (None if text is missing) and all errors."""
    if record.faults:
        return None, list(record.faults)
    named = record.named
    name, faults = _read_id(named.get("id"), record)
    texts = {}
    for column in ("question", "context"):
        text, reason = read_text(named.get(column))
        texts[column] = text or ""
        if reason is not None:
            reason = reason.replace("the text", f"the {column}")
            faults.append(record.fault(column, f"id {name}: {reason}"))
    answers, reasons = _read_answers(named, texts["context"], need_answers)
    faults += [record.fault("answers", f"id {name}: {reason}") for reason in reasons]
    question = Question(name, texts["question"], texts["context"], answers, record.line, record.file)
    return question, faults


def _read_id(value: Any, record: Record) -> tuple[str, list[RowError]]:
    """Returns the ID as text (default: the line number), and its errors."""
    if value is None:
        return str(record.line), []
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value), []
    text, reason = read_text(value)
    if text is None:
        return str(record.line), [record.fault("id", (reason or "").replace("the text", "the id"))]
    return text, []


def _read_answers(
    named: Mapping[str, Any], context: str, need_answers: bool
) -> tuple[tuple[ReferenceAnswer, ...] | None, list[str]]:
    """Returns the reference answers, and error messages."""
    is_impossible, value = named.get("is_impossible"), named.get("answers")
    if value is None and is_impossible is not True:
        return None, ["the answers are missing"] if need_answers else []
    entries, reason = _answer_entries([] if value is None else value)
    if is_impossible is not None and not isinstance(is_impossible, bool):
        reason = f"is_impossible is {json_kind(is_impossible)}, not true or false"
    elif reason is None and is_impossible is True and entries:
        reason = "is_impossible is true, but there are answers"
    elif reason is None and is_impossible is False and not entries:
        reason = "is_impossible is false, but there is no answer"
    if reason is not None:
        return None, [reason]
    read = [_read_gold(entry, context) for entry in entries]
    return tuple(gold for gold, _ in read if gold is not None), [reason for _, reason in read if reason is not None]


def _answer_entries(value: Any) -> tuple[list[Any], str | None]:
    """Returns the list of answers from a text, a list of texts or objects, or an object of two lists; or an error."""
    if isinstance(value, str):
        return [value], None
    if isinstance(value, dict):
        texts, starts = value.get("text"), value.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            return [], "an object of answers needs two lists of equal length, 'text' and 'answer_start'"
        return [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)], None
    if not isinstance(value, list):
        return [], f"is {json_kind(value)}, not a list of answers"
    return value, None


def _read_gold(entry: Any, context: str) -> tuple[ReferenceAnswer | None, str | None]:
    """Returns one answer from a text or an object with `text` and `answer_start`; or an error."""
    if isinstance(entry, str):
        entry = {"text": entry}
    if not isinstance(entry, dict):
        return None, f"an answer is {json_kind(entry)}, not text or an object"
    text, reason = read_text(entry.get("text"))
    if text is None:
        return None, (reason or "").replace("the text", "the text of an answer")
    start, end = entry.get("answer_start"), entry.get("answer_end")
    for name, value in (("answer_start", start), ("answer_end", end)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            return None, f"{name} is {json_kind(value)}, not an integer"
    if not context:
        return None, None  # the missing context is reported
    if start is None:
        start, reason = find_answer(text, context)
    elif end is not None and start > end:
        reason = f"the answer starts at character {start}, beyond its end at {end}"
    elif end is not None and end not in (
        start + len(text),
        start + len(text) - 1,
    ):  # inclusive or exclusive end
        reason = f"the answer has {len(text)} characters, but spans character {start} to {end}"
    else:
        reason = position_error(text, context, start)
    return (None, reason) if reason is not None else (ReferenceAnswer(text, start), None)


READER = Reader(
    "questions",
    "questions",
    "questions with their passages and answers: SQuAD .json, or a table or JSON lines with question, context, answers",
    "test.json",
    recognizes=lambda path, columns: (
        bool({"question", "context", "answer"} & set(columns)) or (not columns and is_questions(path))
    ),
    read=lambda path, columns, skip_bad_rows, labeled: read_questions(
        path, need_answers=labeled, skip_bad_rows=skip_bad_rows, columns=columns
    ),
    stream=lambda path, columns, faults: scan_questions(path, faults, columns=columns),
)
