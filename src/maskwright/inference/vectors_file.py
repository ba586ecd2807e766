"""Writes embeddings to a .npy file in blocks; the file is created once it is complete."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import numpy as np

from ..core import storage
from .embed import TokenVectors


def write_npy(path: Path | str, blocks: Iterable[np.ndarray], size: int) -> int:
    """Write blocks of embeddings, float32 [rows, size], as one matrix for `numpy.load`; returns the number of rows."""
    rows = 0
    with storage.open_new(path) as handle:
        storage.fs.write(handle, _header(0, size))
        for block in blocks:
            rows += _append(handle, block)
        _finish(handle, rows, size)
    return rows


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
