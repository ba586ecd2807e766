"""Uploaded files: limited in size, stored under generated names, and read only by the corpus readers."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core import registry, storage
from ..core.errors import InputError, MissingFileError
from ..tasks.base import AnyRow
from ..tasks.spec import spec_of
from .opened_files import naming_the_file

# Only plain text: a compressed file of a few kilobytes can expand to gigabytes.
ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".conll", ".txt")
FILE_BYTES = 64 << 20
MOST_FILES = 200
SHOWN_ROWS, SHOWN_LABELS, SHOWN_LETTERS = 6, 12, 200
_NAME = re.compile(r"[0-9a-f]{16}\.[a-z]{3,5}")


class Uploads:
    """Stores uploaded files in a directory that is private to its owner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, data: bytes, ending: str) -> str:
        """Stores a file under a hash of its content. Raises InputError for a wrong extension or an empty file."""
        if ending not in ENDINGS:
            raise InputError(f"Files with the extension '{ending}' are not supported; use {', '.join(ENDINGS)}.")
        if not data.strip():
            raise InputError("The file is empty.")
        name = hashlib.sha256(data).hexdigest()[:16] + ending
        path = self.folder / name
        if not path.exists():
            if self.folder.is_dir() and len(list(self.folder.iterdir())) >= MOST_FILES:
                raise InputError(f"{self.folder} contains {MOST_FILES} files: remove those that you do not need.")
            storage.private_folder(self.folder.parent)
            storage.write_bytes(path, data, private=True)
        return name

    def path(self, name: str) -> Path:
        """Returns the path of a stored file. Raises MissingFileError for an unknown name."""
        path = self.folder / name
        if not _NAME.fullmatch(name) or not path.is_file() or path.is_symlink():
            raise MissingFileError("This file no longer exists: select it again.")
        return path.resolve()

    def read(
        self, name: str, task: str, columns: Mapping[str, str], *, skip_bad_rows: bool = False
    ) -> tuple[list[AnyRow], int]:
        """Reads the examples of a task and counts the skipped rows. Raises RowErrors, InputError."""
        path = self.path(name)
        reader = registry.resolve("task", task)
        with naming_the_file(path, "the file"):
            table = reader.read(path, columns=dict(columns) or None, skip_bad_rows=skip_bad_rows)
        return list(table.rows), table.num_skipped

    def describe(
        self, name: str, task: str, columns: Mapping[str, str], *, skip_bad_rows: bool = False
    ) -> dict[str, Any]:
        """Returns the number of examples, the first examples, and the label counts."""
        rows, skipped = self.read(name, task, columns, skip_bad_rows=skip_bad_rows)
        labels = Counter(label for row in rows for label in _labels(row)) if spec_of(task).has_classes else Counter()
        return {
            "rows": len(rows),
            "skipped": skipped,
            "first": [[_short(cell) for cell in _cells(row)] for row in rows[:SHOWN_ROWS]],
            "labels": [[label, count] for label, count in labels.most_common(SHOWN_LABELS)],
            "num_labels": len(labels),
        }


def _labels(row: AnyRow) -> list[str]:
    tags = getattr(row, "tags", None)
    if tags is not None:
        return [str(tag) for tag in tags]
    label = getattr(row, "label", None)
    if label is None or isinstance(label, float):
        return []
    return [str(one) for one in label] if isinstance(label, (list, tuple, frozenset)) else [str(label)]


def _cells(row: AnyRow) -> list[Any]:
    """Returns the text, second text and label of an example, as far as present, for display."""
    label = getattr(row, "tags", None) or row.label
    shown = " ".join(map(str, label)) if isinstance(label, (list, tuple)) else label
    return [row.text, row.text_pair, shown]


def _short(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= SHOWN_LETTERS else text[: SHOWN_LETTERS - 1] + "…"
