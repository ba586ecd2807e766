"""Writes predictions to a file as they arrive: all fields as .jsonl, the main columns as .csv and .tsv.

Spreadsheets run a cell that starts with = + - @ or a tab as a formula, so in .csv and .tsv such texts are prefixed with
an apostrophe; numbers are not.
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
    """Return `path` if its extension is supported; raises InputError otherwise."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} has an unsupported extension: predictions are written as {', '.join(FORMATS)}.")
    return path


def write_answers(path: Path | str, answers: Iterable[Mapping[str, Any]]) -> int:
    """Write predictions as they arrive; the file is created when all are written. Returns their number.

    Tables omit mappings (probabilities), join lists of labels with `|`, and write lists of mappings (entities) as JSON
    in one cell. The first prediction sets the columns of a table.
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
    """Prefix a text that a spreadsheet would run as a formula with an apostrophe."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _line(path: Path, cells: list[str]) -> str:
    if path.suffix.lower() == ".tsv":  # TSV has no quoting, so no tab or line break inside a cell
        return "\t".join(" ".join(cell.split("\t")).replace("\n", " ").replace("\r", " ") for cell in cells) + "\n"
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()
