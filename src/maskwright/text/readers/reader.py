"""The readers of labeled files: one for each layout, in `core.registry` under "reader"."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core import registry
from ...core.errors import RowError
from ..formats.column_names import LABEL_NAMES, TEXT_NAMES
from ..formats.files import file_format
from ..formats.records import parquet_columns, read_records

# -- Finds the label column of a table from its first record ---------------------------------------------------------


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


@dataclass(frozen=True)
class Reader:
    """How files of one layout are recognized and read.

    Attributes:
        name: name in the registry.
        contains: what such a file contains, for messages.
        layout: its layouts and formats, for messages.
        example_file: name of a test file, for suggested commands.
        recognizes: path, column mapping -> whether the file has this layout.
        read: path, column mapping, skip_bad_rows -> its rows; labels are optional.
        scan: path, column mapping, list of errors -> iterator over the valid rows, which adds the errors to the list.
        is_text: whether its rows are texts with at most one label, which `texts` reads too.
        also: name of another reader of the same files, for tasks that do not take the rows of this one.
        read_classes: path, column mapping, allowed labels or None, skip_bad_rows -> rows of labeled texts that are not
            in a table; None for other readers.
    """

    name: str
    contains: str
    layout: str
    example_file: str
    recognizes: Callable[[Path, Mapping[str, str]], bool] = field(repr=False)
    read: Callable[[Path, Mapping[str, str], bool], Any] = field(repr=False)
    scan: Callable[[Path, Mapping[str, str], list[RowError]], Iterator[Any]] = field(repr=False)
    is_text: bool = False
    also: str = ""
    read_classes: Callable[[Path, Mapping[str, str] | None, Collection[str] | None, bool], Any] | None = field(
        default=None, repr=False
    )


def find_reader(
    path: Path, columns: Mapping[str, str] | None = None, fits: Callable[[Reader], bool] | None = None
) -> Reader | None:
    """Returns the first registered reader that recognizes a file, None if none does.

    fits: whether the rows of a reader can be used; if not those of the first, those of its `also` are tried.
    """
    found = next((reader for reader in _readers() if reader.recognizes(path, columns or {})), None)
    if found is None or fits is None or fits(found) or not found.also:
        return found
    other: Reader = registry.resolve("reader", found.also)
    return other if fits(other) and other.recognizes(path, columns or {}) else found


def find_classes_reader(path: Path, columns: Mapping[str, str] | None = None) -> Reader | None:
    """Returns the reader of labeled texts that are not in a table, None if the file is none of these."""
    return next((one for one in _readers() if one.read_classes and one.recognizes(path, columns or {})), None)


def _readers() -> Iterator[Reader]:
    return (registry.resolve("reader", name) for name in registry.names("reader"))
