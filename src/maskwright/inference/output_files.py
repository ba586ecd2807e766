"""Writes predictions and embeddings to files as they arrive."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..core import storage
from ..core.errors import InputError
from .embed import TokenVectors

# -- Writes predictions to a file as they arrive: all fields as .jsonl, the main columns as .csv and .tsv ------------
#
# Spreadsheets run a cell that starts with = + - @ or a tab as a formula, so in .csv and .tsv such texts are prefixed
# with an apostrophe; numbers are not.


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


# -- Writes embeddings to a .npy file in blocks; the file is created once it is complete -----------------------------


def write_npy(path: Path | str, blocks: Iterable[np.ndarray], size: int) -> int:
    """Write blocks of embeddings, float32 [rows, size], as one matrix for `numpy.load`; returns the number of rows."""
    rows = 0
    with storage.open_new(path) as handle:
        storage.fs.write(handle, _header(0, size))
        for block in blocks:
            rows += _append(handle, block)
        _finish(handle, rows, size)
    return rows


def write_npz(path: Path | str, blocks: Iterable[Any], size: int) -> int:
    """Write blocks of sparse embeddings, csr [rows, size], for `scipy.sparse.load_npz`; returns the number of rows."""
    from scipy.sparse import csr_matrix, save_npz, vstack

    whole = vstack([csr_matrix((0, size), dtype=np.float32), *blocks], format="csr")
    buffer = io.BytesIO()
    save_npz(buffer, whole)
    storage.write_bytes(path, buffer.getvalue())
    return int(whole.shape[0])


def write_token_vectors(path: Path | str, names: Path | str, found: Iterable[TokenVectors], size: int) -> int:
    """Write the token embeddings as one matrix, and a JSON line per row to `names`.

    A line is {"text": index of the text from 0, "token", "word", "start", "end"}. Returns the number of rows.
    """
    rows = 0
    with storage.open_new(names) as lines, storage.open_new(path) as handle:
        storage.fs.write(handle, _header(0, size))
        for number, entry in enumerate(found):
            rows += _append(handle, entry.vectors)
            for token, word, (start, end) in zip(entry.tokens, entry.words, entry.spans, strict=True):
                line = {"text": number, "token": token, "word": word, "start": start, "end": end}
                storage.fs.write(lines, (json.dumps(line, ensure_ascii=False) + "\n").encode("utf-8"))
        _finish(handle, rows, size)
    return rows


def _append(handle: IO[bytes], block: np.ndarray) -> int:
    storage.fs.write(handle, np.ascontiguousarray(block, dtype="<f4").tobytes())
    return len(block)


def _finish(handle: IO[bytes], rows: int, size: int) -> None:
    """Rewrite the header with the final number of rows; numpy pads the header for this."""
    handle.seek(0)
    storage.fs.write(handle, _header(rows, size))


def _header(rows: int, size: int) -> bytes:
    """Return the .npy header (version 1.0) of a float32 matrix, of constant length."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f4", "fortran_order": False, "shape": (rows, size)})
    return buffer.getvalue()
