"""The pickle in a `.bin` file, read as a description: nothing of it is run.

A pickle is a program that makes objects by calling whatever it names. Here `pickletools` lists its instructions, and a
machine that knows those which a table of weights needs follows them. It makes numbers, text, tuples, lists, tables, and
three records that only describe: a name (never looked up), a storage, a view of one. Everything else is refused.
"""

from __future__ import annotations

import io
import pickletools
from typing import Any, NamedTuple

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


class BadFile(Exception):
    """Why a file is not read; a clause that goes on from its name."""


class Name(NamedTuple):
    """A Python name that the pickle asks for. It is compared, and never imported."""

    module: str
    name: str


class Storage(NamedTuple):
    """Numbers in a row. key: which; dtype: as safetensors names it; start, length: which of its elements."""

    key: str
    dtype: str
    start: int
    length: int


class View(NamedTuple):
    """A tensor: shape and stride in elements, beginning `offset` elements into its storage."""

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
_VALUES |= {"BINSTRING", "SHORT_BINSTRING"}  # Python 2 wrote text so
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_NOTHING_TO_DO = {"PROTO", "FRAME"}


def follow(stream: io.BytesIO) -> Any:
    """What the pickle at the place of `stream` describes; the stream is left behind it.

    Raises BadFile for what is cut off, damaged, or more than a table of weights.
    """
    machine = _Machine()
    try:
        for instruction, argument, _ in pickletools.genops(stream):
            if instruction.name == "STOP":
                return machine.pop()
            machine.step(instruction.name, argument)
    except (ValueError, OverflowError) as error:  # raised for bytes that are no instructions
        raise BadFile(f"is cut off or damaged ({error})") from None
    raise BadFile("is cut off")


class _Machine:
    """A stack, the places of marks on it, and a memo of what may be named again."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> None:
        """Follow one instruction, as pickletools names it."""
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
            raise BadFile(f"uses the pickle instruction {name}, which no table of weights needs")

    def pop(self) -> Any:
        """The top of the stack."""
        return self.pop_many(1)[0]

    def pop_many(self, count: int) -> list[Any]:
        """The upper `count` of the stack, in order."""
        if len(self.stack) < count:
            raise BadFile("is damaged (its pickle takes more than it made)")
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    def pop_to_mark(self) -> list[Any]:
        """What was put on the stack since the last mark."""
        if not self.marks or self.marks[-1] > len(self.stack):
            raise BadFile("is damaged (its pickle lacks a mark)")
        start = self.marks.pop()
        taken = self.stack[start:]
        del self.stack[start:]
        return taken

    def top(self, kind: type) -> Any:
        """The top of the stack, which stays there, if it is of this kind."""
        if not self.stack or type(self.stack[-1]) is not kind:
            raise BadFile(f"is damaged (its pickle adds to what is no {kind.__name__})")
        return self.stack[-1]

    def remember(self, place: int) -> None:
        """Note the top of the stack under a number."""
        if not self.stack:
            raise BadFile("is damaged (its pickle names what is not there)")
        self.memo[place] = self.stack[-1]

    def recall(self, place: int) -> None:
        """Put what was noted on the stack again."""
        if place not in self.memo:
            raise BadFile("is damaged (its pickle names what is not there)")
        self.stack.append(self.memo[place])

    def ask_for(self, module: Any, name: Any) -> None:
        """Put a name on the stack, if it is one of those that a table of weights needs."""
        asked = Name(module, name) if type(module) is str and type(name) is str else None
        if asked not in _KNOWN:
            raise BadFile(f"asks for '{module}.{name}', which no table of weights needs" if asked else "is damaged")
        self.stack.append(asked)

    def store(self, pairs: list[Any]) -> None:
        """Add keys and values, in turn, to the table on top of the stack."""
        table = self.top(dict)
        # Text alone may be a key: to hash a tuple of tuples can take forever.
        if len(pairs) % 2 or any(type(key) is not str for key in pairs[::2]):
            raise BadFile("is no table of weights (its pickle has a key that is no text)")
        table.update(zip(pairs[::2], pairs[1::2], strict=True))

    def call(self) -> None:
        """What a call describes: an empty table, a tensor, or the tensor inside a parameter."""
        function, arguments = self.pop_many(2)
        if type(function) is not Name or type(arguments) is not tuple:
            raise BadFile("is damaged (its pickle calls what has no name)")
        if function == _TABLE and not arguments:
            self.stack.append({})
        elif function in _TENSORS and len(arguments) >= 4:
            self.stack.append(_view(*arguments[:4]))
        elif function == _PARAMETER and arguments and type(arguments[0]) is View:
            self.stack.append(arguments[0])
        else:
            raise BadFile(f"makes {function.name} of something that no table of weights has")


def _storage(description: Any) -> Storage:
    """('storage', type, key, device, length) as torch writes it, in old files with a part of it behind."""
    if type(description) is not tuple or len(description) not in (5, 6) or description[0] != "storage":
        raise BadFile("is no table of weights (its pickle refers to something else)")
    kind, key, _, length = description[1:5]
    start = 0
    part = description[5] if len(description) == 6 else None
    if type(part) is tuple and len(part) == 3:
        start, length = part[1:]
    elif part is not None:
        raise BadFile("is damaged (a part of a storage is described wrongly)")
    is_kind = type(kind) is Name and kind.name in STORAGES
    if not is_kind or type(key) is not str or not _are_counts((start, length)):
        raise BadFile("is damaged (a storage is described wrongly)")
    return Storage(key, STORAGES[kind.name], start, length)


def _view(storage: Any, offset: Any, shape: Any, stride: Any) -> View:
    """A view that lies inside its storage."""
    is_view = type(storage) is Storage and _are_counts((offset,)) and _are_counts(shape) and _are_counts(stride)
    if not is_view or len(shape) != len(stride) or len(shape) > MOST_DIMENSIONS:
        raise BadFile("is damaged (a tensor is described wrongly)")
    last = offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    if 0 not in shape and last >= storage.length:
        raise BadFile("is damaged (a tensor reaches beyond its storage)")
    return View(storage, offset, shape, stride)


def _are_counts(values: Any) -> bool:
    """Whether these are whole numbers from 0 that an address could be."""
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
    "BINPUT": lambda machine, place: machine.remember(place),
    "LONG_BINPUT": lambda machine, place: machine.remember(place),
    "MEMOIZE": lambda machine, _: machine.remember(len(machine.memo)),
    "BINGET": lambda machine, place: machine.recall(place),
    "LONG_BINGET": lambda machine, place: machine.recall(place),
    "GLOBAL": lambda machine, name: machine.ask_for(*name.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.ask_for(*machine.pop_many(2)),
    "BINPERSID": lambda machine, _: machine.stack.append(_storage(machine.pop())),
    "REDUCE": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.pop(),  # attributes of a table (versions of modules): weights need none
}


def _append(machine: _Machine, values: list[Any]) -> None:
    machine.top(list).extend(values)
