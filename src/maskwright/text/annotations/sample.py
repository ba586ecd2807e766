"""The beginning of a file, by which its format is recognized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ...core.errors import RowError
from ..formats.files import bare_suffix, file_format, read_lines
from ..formats.records import read_records
from .document import json_values

_SAMPLE = 200  # records in which a first label is looked for


@dataclass(frozen=True)
class Sample:
    """The beginning of a file. header: of a table; records: first JSON values, or none."""

    path: Path
    suffix: str
    first_line: str = ""
    header: Sequence[str] = ()
    records: Sequence[Any] = ()

    @property
    def first(self) -> Mapping[str, Any]:
        """The first record; {} if it is no object."""
        return self.records[0] if self.records and isinstance(self.records[0], dict) else {}


def sample_of(path: Path) -> Sample:
    """Reads the beginning of a file or folder. Nothing is found in a file that is not one of text."""
    suffix = bare_suffix(path)
    if path.is_dir() or suffix in (".ann", ".spacy"):
        return Sample(path, suffix)
    if not path.is_file():
        return Sample(path, "")
    kind = file_format(path, default="txt") if suffix not in _OTHER_FILES else "other"
    if kind in ("csv", "tsv", "txt"):
        first = next(read_lines(path), None)
        line = "" if first is None or first.fault else first.text
        header: Sequence[str] = ()
        if kind in ("csv", "tsv") and "annotat" in line:
            row = next(read_records(path, kind), None)
            header = () if row is None or row.faults else [cell.strip() for cell in row.cells]
        return Sample(path, suffix, line, header)
    if kind == "jsonl":
        records = (found[1] for found in json_values(path) if not isinstance(found, RowError))
        return Sample(path, suffix, records=list(islice(records, _SAMPLE)))
    return Sample(path, suffix)


_OTHER_FILES = (".zip", ".tar", ".tgz", ".bz2", ".7z", ".rar", ".xlsx", ".xls", ".ods", ".doc", ".docx", ".pdf", ".odt")
