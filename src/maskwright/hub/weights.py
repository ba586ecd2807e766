"""Weights on disk: safetensors alone, one file or shards with an index. Pickles are refused, never opened.

Names and shapes are read from the headers; a tensor is read when it is asked for.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..core import storage
from ..core.errors import CorruptFileError, ModelFolderError

FILE = "model.safetensors"
INDEX = "model.safetensors.index.json"
BIN = "pytorch_model.bin"
BIN_INDEX = "pytorch_model.bin.index.json"
UNSAFE = (BIN_INDEX, "*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
HEADER_LIMIT_BYTES = 100_000_000
_FLOATS = {"F64", "F32", "F16", "BF16"}


class Weights:
    """The tensors of a folder by stored name; a context manager. shapes: name -> shape, from the headers."""

    def __init__(self, folder: Path, root: Path | None = None) -> None:
        """root: where shards may really lie (links of a download cache lead there); default the folder."""
        self.folder = folder
        self._stack = ExitStack()
        self._files: dict[str, Any] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        try:
            for path in _weight_files(folder, root or folder):
                self._open(path)
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Weights:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def read(self, name: str) -> Tensor:
        """One tensor as float32, whatever it was stored in; shape as in `shapes`, any."""
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor.to(torch.float32)

    def _open(self, path: Path) -> None:
        _check_file(path)
        try:
            file = self._stack.enter_context(safe_open(path, framework="pt"))
        except (SafetensorError, OSError) as error:
            raise CorruptFileError(
                f"{path} is not a complete safetensors file ({error}): fetch or copy it again."
            ) from None
        for name in file.keys():  # noqa: SIM118 - not a dict
            part = file.get_slice(name)
            if part.get_dtype() in _FLOATS:
                self.shapes[name] = tuple(part.get_shape())
                self._files[name] = file


def _weight_files(folder: Path, root: Path) -> list[Path]:
    """The weight files, or a ModelFolderError that says what is there instead."""
    if (folder / FILE).is_file():
        return [folder / FILE]
    if (folder / INDEX).is_file():
        return sorted(read_index(folder / INDEX, root))
    unsafe = unsafe_files(folder)
    if unsafe:
        what = folder if unsafe[0].name in (BIN, BIN_INDEX) else unsafe[0]
        raise ModelFolderError(
            f"{folder} holds its weights as a pickle ({unsafe[0].name}), which can run code when it is opened: run "
            f"maskwright convert {what} -o OUT, which reads it safely, and use OUT."
        )
    raise ModelFolderError(
        f"{folder} has no {FILE}: the weights are missing. (A model that comes as {BIN} alone is made readable by "
        "maskwright convert.)"
    )


def unsafe_files(folder: Path) -> list[Path]:
    """Files that may hold weights as pickles, the most likely first."""
    found = [file for pattern in UNSAFE for file in sorted(folder.glob(pattern)) if file.is_file()]
    return sorted(found, key=lambda file: file.name not in (BIN, BIN_INDEX))


def read_index(index: Path, root: Path) -> dict[Path, set[str]]:
    """The files that an index of shards names, and the tensors in each. root: where they may really lie.

    Raises CorruptFileError for an index that says nothing or names what is not there, ModelFolderError for a name that
    leads out of the folder.
    """
    content = storage.read_json(index)
    files = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(files, dict) or not files or not all(isinstance(name, str) for name in files.values()):
        raise CorruptFileError(f"{index} does not say which tensor is in which file: fetch it again.")
    shards: dict[Path, set[str]] = {}
    for tensor, name in files.items():
        path = index.parent / name
        if Path(name).name != name or not path.resolve().is_relative_to(root.resolve()):
            raise ModelFolderError(f"{index} names '{name}', which lies outside the folder: refused.")
        if path not in shards and not path.is_file():
            raise CorruptFileError(f"{path} is missing: {index.name} names it. Fetch or copy it again.")
        shards.setdefault(path, set()).add(tensor)
    return shards


def _check_file(path: Path) -> None:
    """Refuse what is no safetensors file before the library sees it."""
    with path.open("rb") as handle:
        start = handle.read(8)
    size = path.stat().st_size
    is_zip = start[:4] == b"PK\x03\x04"
    is_bare = start[:1] == b"\x80" and start[1:2] in b"\x02\x03\x04\x05" and start[3:8] != bytes(5)
    if is_zip or is_bare:
        raise ModelFolderError(
            f"{path} is a pickle, not safetensors, whatever its name says: opening it could run code, so it is refused."
        )
    header = int.from_bytes(start, "little")
    if len(start) < 8 or header > min(HEADER_LIMIT_BYTES, size - 8):
        raise CorruptFileError(
            f"{path} is cut off or no safetensors file: it has {size:,} bytes, its header claims {header:,}. "
            "Fetch or copy it again."
        )
