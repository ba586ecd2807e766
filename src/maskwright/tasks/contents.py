"""Which reader reads a file for a task; rejects files of other tasks before they are read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..core import registry
from ..core.errors import InputError
from ..text.readers.tables import Reader, find_reader
from .specs import spec_of, task_for


def readers_of(task: str) -> list[Reader]:
    """Returns the readers of the files that a task is trained on, the most common first."""
    return [registry.resolve("reader", name) for name in spec_of(task).reads]


def fits(task: str, reader: Reader) -> bool:
    """Whether a task can be trained on files of a reader."""
    own = readers_of(task)
    return reader in own or (reader.is_text and any(one.is_text for one in own))


def reader_for(task: str, path: Path, columns: Mapping[str, str] | None = None) -> Reader:
    """Returns the reader of a file for a task: the one that recognizes it if it fits, otherwise the task's first."""
    found = find_reader(path, columns, lambda reader: fits(task, reader))
    return found if found is not None and fits(task, found) else readers_of(task)[0]


def check_content(path: Path, task: str) -> Reader | None:
    """Returns the reader of a file; None for one that is missing or not recognized.

    Raises InputError for a file with rows of another task, with the command for that task.
    """
    found = find_reader(path, None, lambda reader: fits(task, reader)) if path.exists() else None
    if found is None or fits(task, found):
        return found
    raise InputError(
        f"{path} contains {found.contains}, which {task} does not read: it reads {readers_of(task)[0].layout}. "
        f"For this file run maskwright finetune {task_for(found.name)}."
    )
