"""Reads files of any task as one stream of texts, label and line. Invalid rows are counted and skipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..core.errors import InputError
from ..text.readers.choices import ChoiceRow, read_choices
from ..text.readers.detect import TaskName
from ..text.readers.sentiment_trees import is_treebank, read_treebank
from ..text.readers.squad import Question, scan_questions
from ..text.readers.tables import Row, scan_texts
from ..text.readers.tagged import Sentence, read_tagged
from .findings import Faults


class Item(NamedTuple):
    """A row of any task. label: as one string, or None; row: the row of the task's reader."""

    text: str
    pair: str | None
    label: str | None
    line: int
    row: Any


def read_items(path: Path, task: TaskName | None, columns: Mapping[str, str], faults: Faults) -> Iterator[Item]:
    """Yield the valid rows and add invalid ones to `faults`. Raises the errors of the task's reader."""
    if task == "tagging":
        yield from _sentences(path, columns, faults)
    elif task == "qa":
        yield from (_of_question(row) for row in scan_questions(path, faults))
    elif task == "choice":
        yield from _choices(path, faults)
    else:
        if path.suffix == ".json":
            raise InputError(f"{path} is not a table: pass a .csv, .tsv, .jsonl or .parquet file.")
        if is_treebank(path):
            bank = read_treebank(path, columns=columns or None, skip_bad_rows=True)
            faults += bank.skipped
            yield from map(_of_row, bank.rows)
            return
        for row in scan_texts(path, columns or None, faults)[1]:
            yield _of_row(row)


def _of_row(row: Row) -> Item:
    return Item(row.text, row.text_pair, row.label, row.line, row)


def _of_question(row: Question) -> Item:
    answers = None if row.answers is None else "|".join(sorted(answer.text for answer in row.answers))
    return Item(row.question, row.context, answers, row.line, row)


def _sentences(path: Path, columns: Mapping[str, str], faults: Faults) -> Iterator[Item]:
    table = read_tagged(path, columns=columns or None, skip_bad_rows=True)
    faults += table.skipped
    for row in table.rows:
        yield _of_sentence(row)


def _of_sentence(row: Sentence) -> Item:
    return Item(row.text, None, " ".join(row.tags or ()), row.line, row)


def _choices(path: Path, faults: Faults) -> Iterator[Item]:
    table = read_choices(path, skip_bad_rows=True)
    faults += table.skipped
    for row in table.rows:
        yield _of_choice(row)


def _of_choice(row: ChoiceRow) -> Item:
    label = None if row.label is None else row.choices[row.label]
    return Item(f"{row.context} {row.question}".strip(), " ".join(sorted(row.choices)), label, row.line, row)
