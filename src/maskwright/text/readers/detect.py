"""Detects which task a file of examples is for, from its name and first record."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ..formats.columns import LABEL_NAMES, TEXT_NAMES
from ..formats.files import bare_suffix, file_format
from ..formats.records import parquet_columns, read_records
from .choices import is_choices
from .sentiment_trees import is_treebank
from .tagged import is_tagged

TaskName = Literal["classification", "regression", "tagging", "qa", "choice"]


def find_task(path: Path, columns: Mapping[str, str]) -> TaskName | None:
    """Returns the task that a file is for: tagging, qa, choice or classification (treebank); None for labeled text."""
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


def label_column(path: Path) -> str | None:
    """Returns the recognized label column of a table that also has a recognized text column, else None."""
    names = _column_names(path)
    texts = {name for known in TEXT_NAMES for name in known}
    return next((name for name in LABEL_NAMES if name in names), None) if texts.intersection(names) else None


def _column_names(path: Path) -> list[str]:
    kind = file_format(path, default="txt")
    if kind == "txt" or not path.is_file():
        return []
    if kind == "parquet":
        return parquet_columns(path)
    first = next(read_records(path, kind), None)
    if first is None or first.faults:
        return []
    return [cell.strip() for cell in first.cells] or list(first.named)
