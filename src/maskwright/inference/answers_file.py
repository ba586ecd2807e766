"""Answers written to a file, row by row as they come: .jsonl with everything, .csv and .tsv with the main columns.

A spreadsheet runs a cell that begins with = + - @ or a tab as a formula, so in .csv and .tsv such a text gets an
apostrophe in front; numbers of our own are written as they are.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..core import storage
from ..core.errors import InputError

FORMATS = (".jsonl", ".csv", ".tsv")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def check_output(path: Path | str) -> Path:
    """`path`, if its ending is one that can be written. Raises InputError."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} has an unknown ending: answers are written as {', '.join(FORMATS)}.")
    return path


def write_answers(path: Path | str, answers: Iterable[Mapping[str, Any]]) -> int:
    """Write answers as they come; the file appears when all are there. Returns how many.

    Mappings inside an answer (probabilities) are left to .jsonl; in tables lists of labels are joined with `|`, and
    lists of mappings (entities) are one cell of JSON. The first answer decides the columns of a table.
    """
    path = check_output(path)
    count = 0
    columns: list[str] = []
    with storage.open_new(path) as handle:
        for answer in answers:
            if path.suffix.lower() == ".jsonl":
                line = json.dumps(dict(answer), ensure_ascii=False) + "\n"
            else:
                cells = {key: _cell(value) for key, value in answer.items() if not isinstance(value, Mapping)}
                line = _line(path, list(cells)) if not columns else ""
                columns = columns or list(cells)
                line += _line(path, [cells.get(column, "") for column in columns])
            storage.fs.write(handle, line.encode("utf-8"))
            count += 1
    return count


def _cell(value: Any) -> str:
    if isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value):
        return safe_cell(json.dumps(value, ensure_ascii=False))
    if isinstance(value, (list, tuple)):
        return safe_cell("|".join(map(str, value)))
    if value is None:
        return ""
    return safe_cell(value) if isinstance(value, str) else str(value)


def safe_cell(text: str) -> str:
    """The text, with an apostrophe before what a spreadsheet would run."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _line(path: Path, cells: list[str]) -> str:
    if path.suffix.lower() == ".tsv":  # taken literally when read: no quoting, so no tab or line break inside a cell
        return "\t".join(" ".join(cell.split("\t")).replace("\n", " ").replace("\r", " ") for cell in cells) + "\n"
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()
