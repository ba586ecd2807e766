"""Reads files of any task as one stream of texts, label and line. Invalid rows are counted and skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..text.readers.choices import ChoiceRow
from ..text.readers.reader import Reader
from ..text.readers.squad import Question
from ..text.readers.tables import Row
from ..text.readers.tagged import Sentence
from .findings import Faults


class Item(NamedTuple):
    """A row of any task. label: as one string, or None; row: the row of the task's reader."""

    text: str
    pair: str | None
    label: str | None
    line: int
    row: Any


def read_items(path: Path, reader: Reader, columns: Mapping[str, str], faults: Faults) -> Iterator[Item]:
    """Yield the valid rows and add invalid ones to `faults`. Raises the errors of the reader."""
    for row in reader.scan(path, columns, faults):
        yield _ITEMS.get(type(row), _of_row)(row)


def _of_row(row: Row) -> Item:
    return Item(row.text, row.text_pair, row.label, row.line, row)


def _of_question(row: Question) -> Item:
    answers = None if row.answers is None else "|".join(sorted(answer.text for answer in row.answers))
    return Item(row.question, row.context, answers, row.line, row)


def _of_sentence(row: Sentence) -> Item:
    return Item(row.text, None, " ".join(row.tags or ()), row.line, row)


def _of_choice(row: ChoiceRow) -> Item:
    label = None if row.label is None else row.choices[row.label]
    return Item(f"{row.context} {row.question}".strip(), " ".join(sorted(row.choices)), label, row.line, row)


_ITEMS: dict[type, Callable[[Any], Item]] = {Question: _of_question, Sentence: _of_sentence, ChoiceRow: _of_choice}
