"""The two `.bin` formats that torch has written: zip archives (since 1.6), and concatenated pickles before that.

Both contain one pickle that describes a dict of tensors (`description`), and raw storage data. Data is passed on as
views of the mapped file; nothing is decompressed, so a small file cannot expand.
"""

from __future__ import annotations

import codecs
import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import BinaryIO, NamedTuple

from ...core.isolation import BadFile
from .description import LONGEST_PICKLE_BYTES, View, follow

ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
_ZIP = b"PK\x03\x04"
_LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # magic number of legacy files
_LEGACY_VERSION = 1001
_LFS = b"version https://git-lfs"
_TAR, _TAR_AT = b"ustar", 257

# Loaded in advance: a sandboxed process cannot open files when a zip or pickle first needs these modules.
for _codec in ("ascii", "latin-1", "utf-8", "cp437", "raw_unicode_escape", "unicode_escape"):
    codecs.lookup(_codec)


class Stored(NamedTuple):
    """One tensor of a file: its view, and all bytes of its storage."""

    name: str
    view: View
    storage: memoryview


def read_table(data: memoryview, file: BinaryIO) -> list[Stored]:
    """Returns the tensors of a file in order. data: mapped content; file: the same file, for reading.

    Raises BadFile with the reason as a clause.
    """
    start = bytes(data[:512])
    if start.startswith(_ZIP):
        table, storages = _read_zip(data, file)
    elif start.startswith(_LEGACY):
        table, storages = _read_legacy(data)
    elif start.startswith(_LFS):
        raise BadFile("is a Git LFS pointer, not the weights: download them with git lfs pull")
    elif start[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        raise BadFile("is a tar archive from torch before 0.2, which is not supported")
    else:
        raise BadFile("was not written by torch.save (wrong first bytes)")
    return [_stored(name, view, storages) for name, view in table.items()]


def _plain(table: object) -> dict[str, View]:
    """Check that a pickle describes a dict of tensors and nothing else."""
    if type(table) is not dict or not table:
        raise BadFile("is not a weights file (it contains no dict)")
    for name, view in table.items():
        if type(view) is not View:
            raise BadFile(f"is not a plain weights file (its entry '{name}' is not a tensor)")
    return table


def _stored(name: str, view: View, storages: Mapping[str, memoryview]) -> Stored:
    data = storages.get(view.storage.key, memoryview(b""))
    if (view.storage.start + view.storage.length) * ITEM_BYTES[view.storage.dtype] > len(data):
        raise BadFile(f"is truncated or damaged (data of '{name}' is missing)")
    return Stored(name, view, data)


# -- zip format ----------------------------------------------------------------------------------------------------


def _read_zip(data: memoryview, file: BinaryIO) -> tuple[dict[str, View], dict[str, memoryview]]:
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise BadFile(f"is truncated or damaged ({error})") from None
    by_name = {entry.filename: entry for entry in entries}
    if len(by_name) != len(entries):
        raise BadFile("is damaged (two entries have the same name)")
    tables = [name for name in by_name if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(tables) != 1:
        raise BadFile("is a zip archive that was not written by torch.save")
    root = tables[0].removesuffix("data.pkl")
    if any(name.startswith(root + "code/") for name in by_name):
        raise BadFile("contains a program (TorchScript), not weights")
    order = by_name.get(root + "byteorder")
    if order is not None and bytes(_part(data, order)) != b"little":
        raise BadFile("was written with a different byte order, which is not supported")
    description = _part(data, by_name[tables[0]])
    if len(description) > LONGEST_PICKLE_BYTES:
        raise BadFile(f"describes more than any model has (a pickle of {len(description):,} bytes)")
    numbers = root + "data/"
    storages = {name.removeprefix(numbers): _part(data, by_name[name]) for name in by_name if name.startswith(numbers)}
    return _plain(follow(io.BytesIO(description))), storages


def _part(data: memoryview, entry: zipfile.ZipInfo) -> memoryview:
    """Returns the bytes of an uncompressed entry after verifying its checksum."""
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 or entry.file_size != entry.compress_size:
        raise BadFile("is a zip archive with compressed entries, which torch.save never writes")
    header = bytes(data[entry.header_offset : entry.header_offset + 30])
    if len(header) < 30 or not header.startswith(_ZIP):
        raise BadFile("is truncated or damaged (a zip entry is not at its offset)")
    start = entry.header_offset + 30 + sum(struct.unpack("<HH", header[26:]))
    part = data[start : start + entry.file_size]
    if len(part) != entry.file_size or zlib.crc32(part) != entry.CRC:
        raise BadFile(f"is truncated or damaged (the checksum of '{entry.filename}' is wrong)")
    return part


# -- legacy format -------------------------------------------------------------------------------------------------


def _read_legacy(data: memoryview) -> tuple[dict[str, View], dict[str, memoryview]]:
    """Reads magic number, version, system info, dict and storage keys; then the size and data of each storage."""
    stream = io.BytesIO(data[:LONGEST_PICKLE_BYTES])
    _, version, machine, described, keys = (follow(stream) for _ in range(5))
    if version != _LEGACY_VERSION or type(machine) is not dict or machine.get("little_endian") is not True:
        raise BadFile("was written by an unsupported version of torch or on an unsupported machine")
    table = _plain(described)
    item_bytes = {view.storage.key: ITEM_BYTES[view.storage.dtype] for view in table.values()}
    storages, place = {}, stream.tell()
    for key in keys if type(keys) is list else [None]:
        if type(key) is not str or key not in item_bytes or key in storages:
            raise BadFile("is damaged (its list of storages does not match its tensors)")
        count = int.from_bytes(data[place : place + 8], "little")
        start, place = place + 8, place + 8 + count * item_bytes[key]
        if place > len(data):
            raise BadFile("is truncated (data is missing at the end)")
        storages[key] = data[start:place]
    return table, storages
