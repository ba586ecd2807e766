"""Reads weights that torch.save wrote (`.bin`, `.pt`), in a separate process and with torch's restricted unpickler.

`torch.load(weights_only=True)` creates tensors and containers only and rejects every other name. It runs in the
confined process of `core.isolation`, which sends the tensors back as safetensors.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import stat
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from ..core.errors import CorruptFileError, MissingFileError, StorageError
from ..core.isolation import BadFile, Limits, isolated

WORK = f"{__name__}:read_and_send"
DTYPES = {
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
}
# Tensors may take this many times the file's size and the slack: aliases and overlapping views are written separately.
MOST_TIMES = 4
SLACK_BYTES = 1 << 20
_LONGEST_NAME, _LONGEST_REASON = 500, 300
_ZIP = b"PK\x03\x04"
_LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # torch.save before 1.6
_LFS = b"version https://git-lfs"
_TAR, _TAR_AT = b"ustar", 257
_REFUSED = re.compile(r"(?:GLOBAL|global|class|function) [`']?([\w.]+)[`']?")


class ReadTensor(NamedTuple):
    """One tensor of a file, of any shape and a dtype of `DTYPES`, and all names that alias it."""

    names: tuple[str, ...]
    tensor: Tensor


def read_bin(path: Path, limits: Limits | None = None) -> list[ReadTensor]:
    """Read all tensors of a file written by torch.save, in file order, without running code that it names.

    Args:
        path: The file.
        limits: Resource limits of the confined process; default: derived from the file size.

    Raises:
        MissingFileError: no such file.
        CorruptFileError: with the reason why the file cannot be read.
        InputError: this system cannot confine a process.
    """
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            with isolated(WORK, file, limits or Limits.for_size(size), [one for one in sys.path if one]) as answer:
                content = answer.read(2 * (MOST_TIMES * size + SLACK_BYTES))
            return received(content)
        except BadFile as error:
            shown = "".join(letter if letter.isprintable() else "?" for letter in str(error))
            reason = shown if len(shown) <= _LONGEST_REASON else shown[:_LONGEST_REASON] + "..."
            raise CorruptFileError(
                f"{path} {reason}; nothing in it was executed. Download it again, or use another source."
            ) from None


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


def received(content: bytes) -> list[ReadTensor]:
    """Returns the tensors that the process sent. Raises BadFile with the reason, or for anything else."""
    if content[:1] == b"E":
        raise BadFile(content[1:].decode("utf-8", "replace"))
    try:
        tensors = safetensors.torch.load(content[1:])
        (length,) = struct.unpack("<Q", content[1:9])
        groups = json.loads(json.loads(content[9 : 9 + length])["__metadata__"]["names"])
        return [ReadTensor(tuple(names), tensors[names[0]]) for names in groups]
    except (SafetensorError, ValueError, KeyError, TypeError, struct.error):
        raise BadFile("has invalid tensor metadata") from None


# -- in the confined process -----------------------------------------------------------------------------------------


def prepare() -> None:
    """Loads what torch imports on first use: afterwards the process cannot open files."""
    torch.set_num_threads(1)
    for codec in ("ascii", "latin-1", "utf-8", "cp437", "raw_unicode_escape", "unicode_escape"):
        codecs.lookup(codec)
    for is_zip in (True, False):
        for table in ({"a": torch.zeros(2, 2).T, "b": torch.zeros(1, dtype=torch.bool)}, {"a": io.BytesIO()}):
            stream = io.BytesIO()
            torch.save(table, stream, _use_new_zipfile_serialization=is_zip)
            read_and_send(memoryview(stream.getvalue()), stream, io.BytesIO())


def read_and_send(data: memoryview, file: BinaryIO, out: BinaryIO) -> None:
    """Read the mapped file and write "T" and its tensors as safetensors, or "E" and the reason."""
    try:
        groups = _aliases(_load(data, file))
        total = sum(len(names) * tensor.nbytes for names, tensor in groups)
        if total > MOST_TIMES * len(data) + SLACK_BYTES:
            raise BadFile(f"claims {total:,} bytes of tensor data but has only {len(data):,} bytes")
        tensors = {names[0]: tensor.detach().contiguous().clone() for names, tensor in groups}
        content = b"T" + safetensors.torch.save(tensors, {"names": json.dumps([names for names, _ in groups])})
    except BadFile as error:
        content = b"E" + str(error).encode("utf-8", "replace")
    except MemoryError:
        content = b"Eneeds more memory to read than any model does"
    out.write(content)


def _load(data: memoryview, file: BinaryIO) -> dict[str, Tensor]:
    """Returns the plain dict of tensors of a file. Raises BadFile with the reason as a clause."""
    start = bytes(data[:512])
    if start.startswith(_ZIP):
        _check_zip(file)
    elif start.startswith(_LFS):
        raise BadFile("is a Git LFS pointer, not the weights: download them with git lfs pull")
    elif start[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        raise BadFile("is a tar archive from torch before 0.2, which is not supported")
    elif not start.startswith(_LEGACY):
        raise BadFile("was not written by torch.save (wrong first bytes)")
    file.seek(0)
    try:
        table: Any = torch.load(file, map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # torch reports damage by many kinds of error, and a refused name by its text alone
        text = str(error)
        named = _REFUSED.search(text)
        if named and "Weights only" in text:
            what = f"refers to '{named[1]}', which no weights file needs"
        elif "Unsupported operand" in text:  # for example of pickle protocol 4
            what = "was not saved with pickle protocol 2: save it again with torch.save(..., pickle_protocol=2)"
        else:
            what = f"is truncated or damaged ({text.partition(chr(10))[0][:120]})"
        raise BadFile(what) from None
    _check_table(table)
    return dict(table)


def _check_table(table: object) -> None:
    """Checks that an object is a plain dict of dense tensors."""
    if not isinstance(table, dict) or not table:
        raise BadFile("is not a weights file (it contains no dict)")
    for name, tensor in table.items():
        if type(name) is not str:
            raise BadFile("is not a weights file (its pickle has a key that is not a string)")
        if not isinstance(tensor, Tensor):
            raise BadFile(f"is not a plain weights file (its entry '{name}' is not a tensor)")
        if tensor.dtype not in DTYPES or tensor.layout != torch.strided or tensor.is_quantized:
            raise BadFile(f"has a tensor of an unsupported kind ('{name}', {tensor.dtype}, {tensor.layout})")
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable() or name == "__metadata__":
            raise BadFile("has invalid tensor metadata")


def _check_zip(file: BinaryIO) -> None:
    """Checks that a zip is one of torch.save: plain entries whose checksums are right (torch does not verify them)."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            names = [entry.filename for entry in entries]
            if len(set(names)) != len(names):
                raise BadFile("is damaged (two entries have the same name)")
            if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in entries):
                raise BadFile("is a zip archive with compressed entries, which torch.save never writes")
            if sum(name.endswith("/data.pkl") and name.count("/") == 1 for name in names) != 1:
                raise BadFile("is a zip archive that was not written by torch.save")
            if any(name.partition("/")[2].startswith("code/") for name in names):
                raise BadFile("contains a program (TorchScript), not weights")
            damaged = archive.testzip()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, EOFError) as error:
        raise BadFile(f"is truncated or damaged ({error})") from None
    if damaged is not None:
        raise BadFile(f"is truncated or damaged (the checksum of '{damaged}' is wrong)")


def _aliases(table: dict[str, Tensor]) -> list[tuple[list[str], Tensor]]:
    """Groups the names of identical views, in file order."""
    groups: dict[object, tuple[list[str], Tensor]] = {}
    for name, tensor in table.items():
        place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.dtype, tensor.shape)
        key = (*place, tensor.stride()) if tensor.numel() else name
        groups.setdefault(key, ([], tensor))[0].append(name)
    return list(groups.values())
