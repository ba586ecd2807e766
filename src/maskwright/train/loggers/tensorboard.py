"""TensorBoard events of a run: the records of metrics.jsonl in the format that TensorBoard reads.

The file is a sequence of blocks: length (uint64), checksum of the length, data, checksum of the data, all
little-endian. The checksum is CRC-32C (polynomial 0x1EDC6F41), masked. The data is one protocol buffer:

    Event    wall_time = 1 (double)   step = 2 (varint)   file_version = 3 (string)   summary = 5 (Summary)
    Summary  value = 1 (Value, repeated)
    Value    tag = 1 (string)   simple_value = 2 (float)

The tensorboard package is not used: a log rewound to a checkpoint must lose the repeated steps, every write goes
through `core.storage`, and the package has eight dependencies.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ...core import storage
from .base import scalars

NAME = "events.out.tfevents.maskwright"  # TensorBoard takes every file with "tfevents" in its name
VERSION = b"brain.Event:2"
_LARGEST = 3.4028234663852886e38  # of a float of four bytes
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5  # wire types


class EventFile:
    """The event file of one run folder. Its content is a function of the records only."""

    def __init__(self, folder: Path, recipe: Mapping[str, Any] | None = None) -> None:
        self.path = folder / NAME

    def check(self) -> None:
        """Writing needs no package."""

    def close(self, is_finished: bool) -> None:
        """Every record is already on disk."""

    def append(self, record: Mapping[str, Any]) -> None:
        """Append one record of the log: a step, its time and its scalars."""
        begin = b"" if self.path.exists() else _block(_first_event(record))
        storage.append_bytes(self.path, begin + _block(_event(record)))

    def rewrite(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Replace the file by these records, so that no step appears twice."""
        records = list(records)
        events = [_first_event(records[0] if records else {}), *map(_event, records)]
        storage.write_bytes(self.path, b"".join(map(_block, events)))


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), as iSCSI and TFRecord use it."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


# -- inside --------------------------------------------------------------------------------------------------------


def _first_event(record: Mapping[str, Any]) -> bytes:
    """What a file begins with: the version of the format."""
    return _field(1, _DOUBLE, struct.pack("<d", record.get("time", 0.0))) + _field(3, _BYTES, VERSION)


def _event(record: Mapping[str, Any]) -> bytes:
    values = b"".join(
        _field(1, _BYTES, _field(1, _BYTES, tag.encode()) + _field(2, _FLOAT, _float(value)))
        for tag, value in scalars(record).items()
    )
    time = _field(1, _DOUBLE, struct.pack("<d", record.get("time", 0.0)))
    return time + _field(2, _VARINT, _varint(int(record["step"]))) + _field(5, _BYTES, values)


def _field(number: int, wire_type: int, data: bytes) -> bytes:
    length = _varint(len(data)) if wire_type == _BYTES else b""
    return _varint(number << 3 | wire_type) + length + data


def _float(value: float) -> bytes:
    """Four bytes; values out of range become infinite."""
    return struct.pack("<f", math.copysign(math.inf, value) if abs(value) > _LARGEST else value)


def _varint(value: int) -> bytes:
    """Seven bits per byte, lowest first; the high bit marks that more follow."""
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _block(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _checksum(length) + data + _checksum(data)


def _checksum(data: bytes) -> bytes:
    """Masked (rotated by 15, plus a constant), because the data may itself contain a checksum."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@cache
def _table() -> tuple[int, ...]:
    """The checksum of each byte, by the reversed polynomial."""
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)  # noqa: PLW2901
        table.append(crc)
    return tuple(table)
