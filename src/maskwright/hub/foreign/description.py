"""Interprets the pickle in a `.bin` file as a description without running it.

A pickle is a program that creates objects by calling whatever it names. Here `pickletools` lists its opcodes, and a
restricted interpreter follows those that a weights file needs. It creates numbers, strings, tuples, lists, dicts, and
three descriptive records: a name (never imported), a storage, and a view of a storage. Everything else is rejected.
"""

from __future__ import annotations

import io
import pickletools
from typing import Any, NamedTuple

from ...core.isolation import BadFile

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
