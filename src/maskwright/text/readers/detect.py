"""Finds the label column of a table from its first record."""

from __future__ import annotations

from pathlib import Path

from ..formats.column_names import LABEL_NAMES, TEXT_NAMES
from ..formats.files import file_format
from ..formats.records import parquet_columns, read_records


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
