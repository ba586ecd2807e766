"""Receives the tensors of a `.bin` file from the sandboxed process, and validates all metadata before using it."""

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
from ...core.isolation import BadFile, Limits, isolated
from .child import MOST_DIMENSIONS, MOST_TIMES, SLACK_BYTES

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


class ReadTensor(NamedTuple):
    """One tensor of a file, of any shape and a dtype of `DTYPES`, and all names that alias it."""

    names: tuple[str, ...]
    tensor: Tensor


def read_bin(path: Path, limits: Limits | None = None) -> list[ReadTensor]:
    """Read all tensors of a file written by torch.save, in file order, without executing anything in it.

    Args:
        path: The `.bin` file.
        limits: Resource limits of the sandboxed process; default: derived from the file size.

    Raises:
        MissingFileError: no such file.
        CorruptFileError: with the reason why the file cannot be read.
        InputError: this system cannot sandbox a process.
    """
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            with isolated(WORK, file, limits or Limits.for_size(size)) as answer:
                found = _receive(answer, MOST_TIMES * size + SLACK_BYTES)
        except BadFile as error:
            reason = _one_line(str(error))
            raise CorruptFileError(
                f"{path} {reason}; nothing in it was executed. Download it again, or use another source."
            ) from None
    return found


def _open(path: Path) -> BinaryIO:
    """Open a regular, non-empty file for reading."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # do not block on a named pipe
    except FileNotFoundError:
        raise MissingFileError(f"{path} does not exist.") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}.") from error
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode) or not facts.st_size:
        os.close(descriptor)
        raise CorruptFileError(f"{path} is empty or not a regular file: download or copy it again.")
    return os.fdopen(descriptor, "rb")


def _receive(answer: BinaryIO, max_bytes: int) -> list[ReadTensor]:
    """Returns the tensors that the process sent. Raises BadFile with the reason, or EOFError for missing data."""
    length = int.from_bytes(_read_exactly(answer, 8), "little")
    if length > _LONGEST_TEXT_BYTES:
        raise BadFile("describes more tensors than any model has")
    try:
        text = json.loads(_read_exactly(answer, length))
        if "error" in text:
            raise BadFile(str(text["error"]))
        described = text["tensors"]
        is_honest = _are_valid(described, max_bytes)
    except (ValueError, TypeError, KeyError, RecursionError):  # never sent by our own process
        is_honest = False
    if not is_honest:
        raise BadFile("has invalid tensor metadata")
    return [_tensor(answer, one) for one in described]


def _are_valid(described: list[dict[str, Any]], max_bytes: int) -> bool:
    """Whether names, dtypes and shapes are valid, with at most `max_bytes` in total."""
    names = [name for one in described for name in one["names"]]
    return (
        len(set(names)) == len(names)
        and all(_is_name(name) for name in names)
        and all(one["dtype"] in DTYPES and one["names"] and _is_shape(one["shape"]) for one in described)
        and sum(len(one["names"]) * _num_bytes(one) for one in described) <= max_bytes
    )


def _is_name(name: str) -> bool:
    """Whether a tensor name is valid: printable, without lone surrogates, and not reserved by safetensors."""
    return type(name) is str and 0 < len(name) <= _LONGEST_NAME and name.isprintable() and name != "__metadata__"


def _is_shape(shape: list[int]) -> bool:
    return len(shape) <= MOST_DIMENSIONS and all(type(size) is int and 0 <= size < 1 << 48 for size in shape)


def _num_bytes(one: dict[str, Any]) -> int:
    return prod(one["shape"]) * DTYPES[one["dtype"]].itemsize


def _tensor(answer: BinaryIO, one: dict[str, Any]) -> ReadTensor:
    data, dtype = _read_exactly(answer, _num_bytes(one)), DTYPES[one["dtype"]]
    flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return ReadTensor(tuple(one["names"]), flat.reshape(one["shape"]))


def _read_exactly(answer: BinaryIO, count: int) -> bytearray:
    """Read exactly `count` bytes."""
    data = bytearray(count)
    room = memoryview(data)
    while room:
        got = answer.readinto(room)  # type: ignore[attr-defined]  # of every binary file
        if not got:
            raise EOFError
        room = room[got:]
    return data


def _one_line(text: str) -> str:
    """Sanitize text from the file for output on a terminal."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return shown if len(shown) <= _LONGEST_REASON else shown[:_LONGEST_REASON] + "..."
