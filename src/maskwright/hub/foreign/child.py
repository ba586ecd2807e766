"""Sandboxed process that describes the tensors of a `.bin` file and then sends their data.

Output format: 8 bytes with the length of a JSON text, the text, then the data of each listed tensor, contiguous and in
C order. The text is {"tensors": [{"names", "dtype", "shape"}, ...]}, or {"error": ...} with nothing after it. Names
of identical views share one entry.
"""

from __future__ import annotations

import codecs
import io
import json
import pickletools
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Any, BinaryIO, Literal, NamedTuple

from ...core.isolation import BadFile

# -- Interprets the pickle in a `.bin` file as a description without running it --------------------------------------
#
# A pickle is a program that creates objects by calling whatever it names. Here `pickletools` lists its opcodes, and a
# restricted interpreter follows those that a weights file needs. It creates numbers, strings, tuples, lists, dicts, and
# three descriptive records: a name (never imported), a storage, and a view of a storage. Everything else is rejected.


LONGEST_PICKLE_BYTES = 16 << 20
MOST_DIMENSIONS = 16
STORAGES = {
    "DoubleStorage": "F64",
    "FloatStorage": "F32",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "LongStorage": "I64",
    "IntStorage": "I32",
    "ShortStorage": "I16",
    "CharStorage": "I8",
    "ByteStorage": "U8",
    "BoolStorage": "BOOL",
}


class Name(NamedTuple):
    """A Python name in the pickle. It is compared, never imported."""

    module: str
    name: str


class Storage(NamedTuple):
    """A flat buffer. key: identifier; dtype: safetensors name; start, length: range of elements."""

    key: str
    dtype: str
    start: int
    length: int


class View(NamedTuple):
    """A tensor: shape and stride in elements, starting `offset` elements into its storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


_TABLE = Name("collections", "OrderedDict")
_PARAMETER = Name("torch._utils", "_rebuild_parameter")
_TENSORS = (Name("torch._utils", "_rebuild_tensor_v2"), Name("torch._utils", "_rebuild_tensor"))
_KNOWN = {_TABLE, _PARAMETER, *_TENSORS, *(Name("torch", storage) for storage in STORAGES)}
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_VALUES = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"}
_VALUES |= {"BINSTRING", "SHORT_BINSTRING"}  # Python 2 strings
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_NOTHING_TO_DO = {"PROTO", "FRAME"}


def follow(stream: io.BytesIO) -> Any:
    """Interpret the pickle at the current position of `stream` and leave the stream after it.

    Raises BadFile if the pickle is truncated, damaged, or more than a weights file needs.
    """
    machine = _Machine()
    try:
        for instruction, argument, _ in pickletools.genops(stream):
            if instruction.name == "STOP":
                return machine.pop()
            machine.step(instruction.name, argument)
    except (ValueError, OverflowError) as error:  # raised for invalid opcodes
        raise BadFile(f"is truncated or damaged ({error})") from None
    raise BadFile("is truncated")


class _Machine:
    """Interpreter state: a stack, the positions of marks, and the memo."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> None:
        """Execute one opcode, as named by pickletools."""
        if name in _NOTHING_TO_DO:
            return
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _VALUES:
            self.stack.append(argument)
        elif name in _TUPLES:
            self.stack.append(tuple(self.pop_many(_TUPLES[name])))
        elif name in _ACTIONS:
            _ACTIONS[name](self, argument)
        else:
            raise BadFile(f"uses the pickle opcode {name}, which no weights file needs")

    def pop(self) -> Any:
        """Remove and return the top of the stack."""
        return self.pop_many(1)[0]

    def pop_many(self, count: int) -> list[Any]:
        """Remove and return the top `count` items, in order."""
        if len(self.stack) < count:
            raise BadFile("is damaged (its pickle pops from an empty stack)")
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    def pop_to_mark(self) -> list[Any]:
        """Remove and return the items since the last mark."""
        if not self.marks or self.marks[-1] > len(self.stack):
            raise BadFile("is damaged (its pickle lacks a mark)")
        start = self.marks.pop()
        taken = self.stack[start:]
        del self.stack[start:]
        return taken

    def top(self, kind: type) -> Any:
        """Returns the top of the stack without removing it; checks its type."""
        if not self.stack or type(self.stack[-1]) is not kind:
            raise BadFile(f"is damaged (its pickle adds items to something other than a {kind.__name__})")
        return self.stack[-1]

    def memoize(self, place: int) -> None:
        """Store the top of the stack in the memo."""
        if not self.stack:
            raise BadFile("is damaged (its pickle refers to a missing item)")
        self.memo[place] = self.stack[-1]

    def push_memo(self, place: int) -> None:
        """Push an item from the memo."""
        if place not in self.memo:
            raise BadFile("is damaged (its pickle refers to a missing item)")
        self.stack.append(self.memo[place])

    def push_name(self, module: Any, name: Any) -> None:
        """Push a name if it is one that a weights file needs."""
        asked = Name(module, name) if type(module) is str and type(name) is str else None
        if asked not in _KNOWN:
            raise BadFile(f"refers to '{module}.{name}', which no weights file needs" if asked else "is damaged")
        self.stack.append(asked)

    def store(self, pairs: list[Any]) -> None:
        """Add alternating keys and values to the dict on top of the stack."""
        table = self.top(dict)
        # Keys must be strings: hashing nested tuples can take forever.
        if len(pairs) % 2 or any(type(key) is not str for key in pairs[::2]):
            raise BadFile("is not a weights file (its pickle has a key that is not a string)")
        table.update(zip(pairs[::2], pairs[1::2], strict=True))

    def call(self) -> None:
        """Interpret a call: an empty dict, a tensor, or the tensor inside a parameter."""
        function, arguments = self.pop_many(2)
        if type(function) is not Name or type(arguments) is not tuple:
            raise BadFile("is damaged (its pickle calls something without a name)")
        if function == _TABLE and not arguments:
            self.stack.append({})
        elif function in _TENSORS and len(arguments) >= 4:
            self.stack.append(_view(*arguments[:4]))
        elif function == _PARAMETER and arguments and type(arguments[0]) is View:
            self.stack.append(arguments[0])
        else:
            raise BadFile(f"calls {function.name} with arguments that no weights file has")


def _storage(description: Any) -> Storage:
    """Parse ('storage', type, key, device, length) as torch writes it; legacy files append a view of part of it."""
    if type(description) is not tuple or len(description) not in (5, 6) or description[0] != "storage":
        raise BadFile("is not a weights file (its pickle refers to something else)")
    kind, key, _, length = description[1:5]
    start = 0
    part = description[5] if len(description) == 6 else None
    if type(part) is tuple and len(part) == 3:
        start, length = part[1:]
    elif part is not None:
        raise BadFile("is damaged (a storage view is invalid)")
    is_kind = type(kind) is Name and kind.name in STORAGES
    if not is_kind or type(key) is not str or not _are_counts((start, length)):
        raise BadFile("is damaged (a storage is invalid)")
    return Storage(key, STORAGES[kind.name], start, length)


def _view(storage: Any, offset: Any, shape: Any, stride: Any) -> View:
    """Returns a view after checking that it lies within its storage."""
    is_view = type(storage) is Storage and _are_counts((offset,)) and _are_counts(shape) and _are_counts(stride)
    if not is_view or len(shape) != len(stride) or len(shape) > MOST_DIMENSIONS:
        raise BadFile("is damaged (a tensor is invalid)")
    last = offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    if 0 not in shape and last >= storage.length:
        raise BadFile("is damaged (a tensor extends beyond its storage)")
    return View(storage, offset, shape, stride)


def _are_counts(values: Any) -> bool:
    """Whether all values are non-negative integers that fit an address."""
    return type(values) is tuple and all(type(value) is int and 0 <= value < 1 << 48 for value in values)


_ACTIONS = {
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "EMPTY_DICT": lambda machine, _: machine.stack.append({}),
    "EMPTY_LIST": lambda machine, _: machine.stack.append([]),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.pop_to_mark())),
    "APPEND": lambda machine, _: _append(machine, machine.pop_many(1)),
    "APPENDS": lambda machine, _: _append(machine, machine.pop_to_mark()),
    "SETITEM": lambda machine, _: machine.store(machine.pop_many(2)),
    "SETITEMS": lambda machine, _: machine.store(machine.pop_to_mark()),
    "BINPUT": lambda machine, place: machine.memoize(place),
    "LONG_BINPUT": lambda machine, place: machine.memoize(place),
    "MEMOIZE": lambda machine, _: machine.memoize(len(machine.memo)),
    "BINGET": lambda machine, place: machine.push_memo(place),
    "LONG_BINGET": lambda machine, place: machine.push_memo(place),
    "GLOBAL": lambda machine, name: machine.push_name(*name.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.push_name(*machine.pop_many(2)),
    "BINPERSID": lambda machine, _: machine.stack.append(_storage(machine.pop())),
    "REDUCE": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.pop(),  # attributes of a dict (module versions), not needed
}


def _append(machine: _Machine, values: list[Any]) -> None:
    machine.top(list).extend(values)


# -- The two `.bin` formats that torch has written: zip archives (since 1.6), and concatenated pickles before that
#
# Both contain one pickle that describes a dict of tensors (`description`), and raw storage data. Data is passed on as
# views of the mapped file; nothing is decompressed, so a small file cannot expand.


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
