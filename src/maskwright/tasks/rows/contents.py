"""Detects the kind of a labeled file, to reject files of another task before they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ...core.errors import InputError
from ...text.formats.columns import KNOWN_NAMES
from ...text.formats.files import file_format
from ...text.formats.records import read_records
from ...text.readers.choices import is_choices
from ...text.readers.squad import is_questions
from ...text.readers.tagged import is_tagged

_ROWS_SEEN = 20


@dataclass(frozen=True)
class Content:
    """One kind of labeled file.

    name: what it contains; format: supported file formats; tasks: tasks trained on it, the first is suggested in
    messages; is_in: whether a file contains it.
    """

    name: str
    format: str
    tasks: tuple[str, ...]
    is_in: Callable[[Path], bool]


def _is_table(path: Path) -> bool:
    """Whether a .tsv or .csv has two known column names, or mostly several words in its first column."""
    kind = file_format(path, default="other")
    if kind not in ("csv", "tsv"):
        return False
    first = [record.cells for record in islice(read_records(path, kind), _ROWS_SEEN) if record.cells]
    if not first:
        return False
    num_named = sum(cell.strip().casefold() in KNOWN_NAMES for cell in first[0])
    return num_named > 1 or 2 * sum(" " in cells[0].strip() for cells in first) > len(first)


CONTENTS = (
    Content(
        "questions",
        "questions with their passages and answers: SQuAD .json, or .jsonl or .parquet with question, context, answers",
        ("qa",),
        is_questions,
    ),
    Content(
        "multiple-choice rows",
        "choices with the number of the right one: SWAG .csv, or .jsonl with context, choices, label",
        ("choice",),
        is_choices,
    ),
    Content(
        "tagged words",
        "CoNLL columns (token and tag per line, a blank line after each sentence), or .jsonl with tokens and tags",
        ("tagging",),
        is_tagged,
    ),
    Content(
        "a table of texts",
        "a table: .csv, .tsv, .jsonl or .parquet, one text per row",
        ("classification", "regression", "similarity", "anomaly", "generation", "translation"),
        _is_table,
    ),
)


def check_content(path: Path, task: str) -> None:
    """Raises InputError for a file with rows of another task, with the command for that task.

    Files that are missing or not recognized pass, and so do unknown tasks.
    """
    wanted = next((content for content in CONTENTS if task in content.tasks), None)
    if wanted is None or not path.is_file():
        return
    found = next((content for content in CONTENTS if content.is_in(path)), None)
    if found is None or found is wanted:
        return
    raise InputError(
        f"{path} contains {found.name}, which {task} does not read: it reads {wanted.format}. "
        f"For this file run maskwright finetune {found.tasks[0]}."
    )
