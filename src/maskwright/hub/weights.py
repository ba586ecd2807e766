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
UNSAFE = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
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
        return _shards(folder, root)
    unsafe = sorted(file.name for pattern in UNSAFE for file in folder.glob(pattern))
    if unsafe:
        raise ModelFolderError(
            f"{folder} holds its weights as a pickle ({unsafe[0]}), which can run code when it is opened: get the "
            f"model with {FILE} instead."
        )
    raise ModelFolderError(f"{folder} has no {FILE}: the weights are missing.")


def _shards(folder: Path, root: Path) -> list[Path]:
    index = storage.read_json(folder / INDEX)
    files = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(files, dict) or not files or not all(isinstance(name, str) for name in files.values()):
        raise CorruptFileError(f"{folder / INDEX} does not say which tensor is in which file: fetch it again.")
    paths = []
    for name in sorted(set(files.values())):
        path = folder / name
        if Path(name).name != name or not path.resolve().is_relative_to(root.resolve()):
            raise ModelFolderError(f"{folder / INDEX} names '{name}', which lies outside the folder: refused.")
        if not path.is_file():
            raise CorruptFileError(f"{path} is missing: {INDEX} names it. Fetch or copy it again.")
        paths.append(path)
    return paths


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
