"""The two files that torch has written under the name `.bin`: a zip (since 1.6), and a row of pickles before that.

Both hold one pickle that describes a table of tensors (`description`), and the numbers of their storages as they are.
Numbers are handed on as views of the mapped file; nothing is unpacked, so a small file cannot become a large one.
"""

from __future__ import annotations

import codecs
import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import BinaryIO, NamedTuple

from .description import LONGEST_PICKLE_BYTES, BadFile, View, follow

ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
_ZIP = b"PK\x03\x04"
_LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # the number with which its old files begin
_LEGACY_VERSION = 1001
_LFS = b"version https://git-lfs"
_TAR, _TAR_AT = b"ustar", 257

# A process that may open no file cannot load these when a zip or a pickle first needs them.
for _codec in ("ascii", "latin-1", "utf-8", "cp437", "raw_unicode_escape", "unicode_escape"):
    codecs.lookup(_codec)


class Stored(NamedTuple):
    """One tensor of a file: its view, and all bytes of the storage that the view is in."""

    name: str
    view: View
    storage: memoryview


def read_table(data: memoryview, file: BinaryIO) -> list[Stored]:
    """The tensors of a file, in its order. data: its content; file: the same, to be read from.

    Raises BadFile with a clause that says why not.
    """
    start = bytes(data[:512])
    if start.startswith(_ZIP):
        table, storages = _read_zip(data, file)
    elif start.startswith(_LEGACY):
        table, storages = _read_legacy(data)
    elif start.startswith(_LFS):
        raise BadFile("is a pointer of Git LFS and not the weights: fetch them with git lfs pull")
    elif start[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        raise BadFile("is a tar archive as torch wrote them before 0.2, which is not read")
    else:
        raise BadFile("is no file that torch.save wrote (its first bytes say so)")
    return [_stored(name, view, storages) for name, view in table.items()]


def _plain(table: object) -> dict[str, View]:
    """What a pickle described, if it is a table of tensors and of nothing else."""
    if type(table) is not dict or not table:
        raise BadFile("is no table of weights (there is no table of names in it)")
    for name, view in table.items():
        if type(view) is not View:
            raise BadFile(f"is no plain table of weights (its entry '{name}' is no tensor)")
    return table


def _stored(name: str, view: View, storages: Mapping[str, memoryview]) -> Stored:
    data = storages.get(view.storage.key, memoryview(b""))
    if (view.storage.start + view.storage.length) * ITEM_BYTES[view.storage.dtype] > len(data):
        raise BadFile(f"is cut off or damaged (it lacks numbers of '{name}')")
    return Stored(name, view, data)


# -- the zip -----------------------------------------------------------------------------------------------------


def _read_zip(data: memoryview, file: BinaryIO) -> tuple[dict[str, View], dict[str, memoryview]]:
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise BadFile(f"is cut off or damaged ({error})") from None
    by_name = {entry.filename: entry for entry in entries}
    if len(by_name) != len(entries):
        raise BadFile("is damaged (two of its parts have one name)")
    tables = [name for name in by_name if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(tables) != 1:
        raise BadFile("is a zip, but not one that torch.save wrote")
    root = tables[0].removesuffix("data.pkl")
    if any(name.startswith(root + "code/") for name in by_name):
        raise BadFile("holds a program (TorchScript) and not a table of weights")
    order = by_name.get(root + "byteorder")
    if order is not None and bytes(_part(data, order)) != b"little":
        raise BadFile("was written by a machine with another order of bytes, which is not read")
    description = _part(data, by_name[tables[0]])
    if len(description) > LONGEST_PICKLE_BYTES:
        raise BadFile(f"describes more than any model has ({len(description):,} bytes of description)")
    numbers = root + "data/"
    storages = {name.removeprefix(numbers): _part(data, by_name[name]) for name in by_name if name.startswith(numbers)}
    return _plain(follow(io.BytesIO(description))), storages


def _part(data: memoryview, entry: zipfile.ZipInfo) -> memoryview:
    """The bytes of a part that is stored as it is, after a check of its sum."""
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 or entry.file_size != entry.compress_size:
        raise BadFile("is a zip with packed parts, which torch.save never writes")
    header = bytes(data[entry.header_offset : entry.header_offset + 30])
    if len(header) < 30 or not header.startswith(_ZIP):
        raise BadFile("is cut off or damaged (a part is not where the zip says)")
    start = entry.header_offset + 30 + sum(struct.unpack("<HH", header[26:]))
    part = data[start : start + entry.file_size]
    if len(part) != entry.file_size or zlib.crc32(part) != entry.CRC:
        raise BadFile(f"is cut off or damaged (the sum of '{entry.filename}' is wrong)")
    return part


# -- the row of pickles ------------------------------------------------------------------------------------------


def _read_legacy(data: memoryview) -> tuple[dict[str, View], dict[str, memoryview]]:
    """Number, version, facts of the machine, table, keys of storages; then for each its count and its numbers."""
    stream = io.BytesIO(data[:LONGEST_PICKLE_BYTES])
    _, version, machine, described, keys = (follow(stream) for _ in range(5))
    if version != _LEGACY_VERSION or type(machine) is not dict or machine.get("little_endian") is not True:
        raise BadFile("was written by a version of torch, or on a machine, whose files are not read")
    table = _plain(described)
    item_bytes = {view.storage.key: ITEM_BYTES[view.storage.dtype] for view in table.values()}
    storages, place = {}, stream.tell()
    for key in keys if type(keys) is list else [None]:
        if type(key) is not str or key not in item_bytes or key in storages:
            raise BadFile("is damaged (its list of storages does not belong to its table)")
        count = int.from_bytes(data[place : place + 8], "little")
        start, place = place + 8, place + 8 + count * item_bytes[key]
        if place > len(data):
            raise BadFile("is cut off (numbers are missing at its end)")
        storages[key] = data[start:place]
    return table, storages
