"""The rows of a file of any task as one stream: texts, label, line. Bad rows are counted and left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..core.errors import InputError
from ..text.choices import ChoiceRow, is_choices, read_choices
from ..text.files import bare_suffix, file_format
from ..text.records import read_records
from ..text.sentiment_trees import is_treebank, read_treebank
from ..text.squad import Question, scan_questions
from ..text.tables import Row, scan_texts
from ..text.tagged import Sentence, is_tagged, read_tagged
from .findings import Faults

TaskName = Literal["classification", "regression", "tagging", "qa", "choice"]


class Item(NamedTuple):
    """A row of any task. label: as one text, None where it has none; row: what the reader of its task gave."""

    text: str
    pair: str | None
    label: str | None
    line: int
    row: Any


def find_task(path: Path, columns: Mapping[str, str]) -> TaskName | None:
    """The task that a file is for by its form: tagging, qa, choice, trees to classify; None for labelled text."""
    if bare_suffix(path) == ".json":
        return "qa"
    if is_tagged(path, columns):
        return "tagging"
    if is_treebank(path):
        return "classification"
    if is_choices(path):
        return "choice"
    if path.is_file() and file_format(path, default="txt") == "jsonl":
        first = next(read_records(path, "jsonl"), None)
        if first is not None and {"answers", "is_impossible"} & set(first.named):
            return "qa"
    return None


def read_items(path: Path, task: TaskName | None, columns: Mapping[str, str], faults: Faults) -> Iterator[Item]:
    """The good rows, as they are read; bad ones go to `faults`. Raises what the readers of the task raise."""
    if task == "tagging":
        yield from _sentences(path, columns, faults)
    elif task == "qa":
        yield from (_of_question(row) for row in scan_questions(path, faults))
    elif task == "choice":
        yield from _choices(path, faults)
    else:
        if path.suffix == ".json":
            raise InputError(f"{path} is no table: rows are read from .csv, .tsv, .jsonl or .parquet.")
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
    golds = None if row.answers is None else "|".join(sorted(gold.text for gold in row.answers))
    return Item(row.question, row.context, golds, row.line, row)


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
