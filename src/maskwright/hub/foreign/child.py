"""Sandboxed process that describes the tensors of a `.bin` file and then sends their data.

Output format: 8 bytes with the length of a JSON text, the text, then the data of each listed tensor, contiguous and in
C order. The text is {"tensors": [{"names", "dtype", "shape"}, ...]}, or {"error": ...} with nothing after it. Names
of identical views share one entry.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from itertools import product
from math import prod
from typing import BinaryIO, Literal

from ...core.isolation import BadFile
from .containers import ITEM_BYTES, Stored, read_table

# Maximum ratio of tensor data to file size: tied tensors and overlapping views are written out separately.
MOST_TIMES = 4
SLACK_BYTES = 1 << 20
_FORMATS: dict[int, Literal["B", "H", "I", "Q"]] = {1: "B", 2: "H", 4: "I", 8: "Q"}


def describe_and_send(data: memoryview, file: BinaryIO, out: BinaryIO) -> None:
    """Read the mapped file and write the output."""
    groups: list[list[Stored]] = []
    try:
        groups = _groups(read_table(data, file))
        total = sum(len(group) * _num_bytes(group[0]) for group in groups)
        if total > MOST_TIMES * len(data) + SLACK_BYTES:
            raise BadFile(f"claims {total:,} bytes of tensor data but has only {len(data):,} bytes")
        for stored, *_ in groups:
            _check_booleans(stored)
        reason = ""
    except BadFile as error:
        reason = str(error)
    except MemoryError:
        reason = "needs more memory to read than any model does"
    if reason:  # reported here, after the memory has been freed
        _send_text(out, {"error": reason})
        return
    tensors = [
        {"names": [one.name for one in group], "dtype": group[0].view.storage.dtype, "shape": group[0].view.shape}
        for group in groups
    ]
    _send_text(out, {"tensors": tensors})
    for stored, *_ in groups:
        for row in rows(stored):
            out.write(row)


def rows(stored: Stored) -> Iterator[memoryview | bytes]:
    """Yields the data of one tensor as bytes in C order, in as many chunks as its strides require."""
    view, size = stored.view, ITEM_BYTES[stored.view.storage.dtype]
    shape, stride = _joined(view.shape, view.stride)
    if 0 in view.shape:
        return
    first = view.storage.start + view.offset
    count, step = (shape[-1], stride[-1]) if shape else (1, 1)
    numbers = stored.storage[: len(stored.storage) // size * size].cast(_FORMATS[size])
    for place in product(*map(range, shape[:-1])):
        start = first + sum(index * length for index, length in zip(place, stride, strict=False))
        if step == 1:
            yield stored.storage[start * size : (start + count) * size]
        elif step == 0:
            yield bytes(stored.storage[start * size : (start + 1) * size]) * count
        else:
            yield numbers[start : start + (count - 1) * step + 1 : step].tobytes()


def _joined(shape: tuple[int, ...], stride: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Simplify a view to as few dimensions as possible: drop dimensions of size 1, merge contiguous ones."""
    sizes: list[int] = []
    steps: list[int] = []
    for size, step in zip(shape, stride, strict=True):
        if size == 1:
            continue
        if sizes and steps[-1] == size * step:
            sizes[-1], steps[-1] = sizes[-1] * size, step
        else:
            sizes.append(size)
            steps.append(step)
    return sizes, steps


def _groups(table: list[Stored]) -> list[list[Stored]]:
    """Group tensors that are identical views, in file order."""
    groups: dict[object, list[Stored]] = {}
    for stored in table:
        groups.setdefault(stored.view, []).append(stored)
    return list(groups.values())


def _num_bytes(stored: Stored) -> int:
    return prod(stored.view.shape) * ITEM_BYTES[stored.view.storage.dtype]


def _check_booleans(stored: Stored) -> None:
    """Reject boolean tensors with bytes other than 0 and 1, whose handling is undefined."""
    if stored.view.storage.dtype == "BOOL" and any(bytes(row).translate(None, b"\0\1") for row in rows(stored)):
        raise BadFile(f"is damaged ('{stored.name}' contains values other than true and false)")


def _send_text(out: BinaryIO, value: object) -> None:
    text = json.dumps(value).encode("ascii")
    out.write(struct.pack("<Q", len(text)) + text)
