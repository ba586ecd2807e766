"""Tensors of a `.bin` file, from the process that read it: what it claims is checked before anything is believed."""

from __future__ import annotations

import json
import os
import stat
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor

from ...core.errors import CorruptFileError, MissingFileError, StorageError
from .child import MOST_TIMES, SLACK_BYTES
from .description import MOST_DIMENSIONS, BadFile
from .isolation import Limits, isolated

WORK = "maskwright.hub.foreign.child:describe_and_send"
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_LONGEST_TEXT_BYTES = 64 << 20
_LONGEST_NAME, _LONGEST_REASON = 500, 300


class Read(NamedTuple):
    """One tensor of a file, any shape and any of `DTYPES`, and the names that share it."""

    names: tuple[str, ...]
    tensor: Tensor


def read_bin(path: Path, limits: Limits | None = None) -> list[Read]:
    """All tensors of a file that torch.save wrote, in its order. Nothing in the file is executed.

    limits: of the process that reads it; None for what its size makes reasonable. Raises MissingFileError,
    CorruptFileError with the reason why the file is not read, InputError on a system that cannot confine a process.
    """
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            with isolated(WORK, file, limits or Limits.for_size(size)) as answer:
                found = _receive(answer, MOST_TIMES * size + SLACK_BYTES)
        except BadFile as error:
            reason = _one_line(str(error))
            raise CorruptFileError(
                f"{path} {reason}; nothing of it was executed. Fetch it again, or take the model from another source."
            ) from None
    return found


def _open(path: Path) -> BinaryIO:
    """A regular file that is not empty, to be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # or a named pipe would wait for a writer
    except FileNotFoundError:
        raise MissingFileError(f"{path} does not exist.") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}.") from error
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode) or not facts.st_size:
        os.close(descriptor)
        raise CorruptFileError(f"{path} is empty, or no file: fetch or copy it again.")
    return os.fdopen(descriptor, "rb")


def _receive(answer: BinaryIO, most_bytes: int) -> list[Read]:
    """The tensors that the process sent. Raises BadFile with the reason if it sent none, EOFError if too little."""
    length = int.from_bytes(_exactly(answer, 8), "little")
    if length > _LONGEST_TEXT_BYTES:
        raise BadFile("describes more tensors than any model has")
    try:
        text = json.loads(_exactly(answer, length))
        if "error" in text:
            raise BadFile(str(text["error"]))
        described = text["tensors"]
        is_honest = _are_honest(described, most_bytes)
    except (ValueError, TypeError, KeyError, RecursionError):  # what no process of ours sends
        is_honest = False
    if not is_honest:
        raise BadFile("was described as no tensors can be")
    return [_tensor(answer, one) for one in described]


def _are_honest(described: list[dict[str, Any]], most_bytes: int) -> bool:
    """Whether names, kinds and shapes are such as a table of weights may have, and no more than `most_bytes`."""
    names = [name for one in described for name in one["names"]]
    return (
        len(set(names)) == len(names)
        and all(_is_name(name) for name in names)
        and all(one["dtype"] in DTYPES and one["names"] and _is_shape(one["shape"]) for one in described)
        and sum(len(one["names"]) * _num_bytes(one) for one in described) <= most_bytes
    )


def _is_name(name: str) -> bool:
    """Whether a tensor may be called so: printable, which no lone surrogate is, and not what safetensors reserves."""
    return type(name) is str and 0 < len(name) <= _LONGEST_NAME and name.isprintable() and name != "__metadata__"


def _is_shape(shape: list[int]) -> bool:
    return len(shape) <= MOST_DIMENSIONS and all(type(size) is int and 0 <= size < 1 << 48 for size in shape)


def _num_bytes(one: dict[str, Any]) -> int:
    return prod(one["shape"]) * DTYPES[one["dtype"]].itemsize


def _tensor(answer: BinaryIO, one: dict[str, Any]) -> Read:
    data, dtype = _exactly(answer, _num_bytes(one)), DTYPES[one["dtype"]]
    flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return Read(tuple(one["names"]), flat.reshape(one["shape"]))


def _exactly(answer: BinaryIO, count: int) -> bytearray:
    """The next `count` bytes."""
    data = bytearray(count)
    room = memoryview(data)
    while room:
        got = answer.readinto(room)  # type: ignore[attr-defined]
        if not got:
            raise EOFError
        room = room[got:]
    return data


def _one_line(text: str) -> str:
    """Text from the file's side, harmless on a terminal."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return shown if len(shown) <= _LONGEST_REASON else shown[:_LONGEST_REASON] + "..."
