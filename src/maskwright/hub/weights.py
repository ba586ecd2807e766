"""Reads safetensors weights, one file or shards with an index. Pickles are rejected without opening them.

Names and shapes are read from the headers; tensors are read on demand.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..core import storage
from ..core.config import check
from ..core.errors import CorruptFileError, ModelFolderError

# -- Stores matrices as int8 with one scale per row: about a quarter of the size of float32 --------------------------
#
# Matrix NAME is stored as NAME.int8 and NAME.row_scale, so that a library that does not know the format misses the
# weight rather than loading the integers. Vectors stay float32. The largest error of a weight is half a scale: 0.4% of
# the largest absolute value in its row.


VALUES, SCALES = ".int8", ".row_scale"
LARGEST = 127


def to_rows(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors as stored. A matrix, float [rows, ...], becomes int8 [rows, ...] and float32 [rows]."""
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        weight = tensor.float()
        if weight.dim() < 2 or not weight.numel():
            stored[name] = weight
            continue
        scales = weight.flatten(1).abs().amax(dim=1) / LARGEST
        scales = torch.where(scales > 0, scales, torch.ones_like(scales))  # a row of zeros
        stored[name + VALUES] = (weight / _column(scales, weight)).round().to(torch.int8)
        stored[name + SCALES] = scales
    return stored


def from_rows(values: Tensor, scales: Tensor) -> Tensor:
    """Returns a matrix as float32 [rows, ...]. values: int8 [rows, ...]; scales: [rows]."""
    return values.float() * _column(scales.float(), values)


def _column(scales: Tensor, matrix: Tensor) -> Tensor:
    """The scales with the number of dimensions of the matrix: [rows, 1, ...]."""
    return scales.reshape(-1, *[1] * (matrix.dim() - 1))


# -- Weights with a low-rank update per task, as jina-embeddings-v3 stores them ----------------------------------------
#
# Beside the matrix NAME.original lie NAME.0.lora_A and NAME.0.lora_B, one pair per task: [tasks, rank, in] and [tasks,
# out, rank] of a linear layer, [tasks, rows, rank] and [tasks, rank, size] of an embedding table.


ORIGINAL = ".parametrizations.weight.original"
TASKS, INSTRUCTIONS = "lora_adaptations", "task_instructions"  # in config.json


def task_of(config: Mapping[str, Any], name: str) -> tuple[int, float]:
    """Returns the index of the task `name` and the factor of its updates. config: of config.json.

    Raises ConfigError for an unknown name.
    """
    names, rank, alpha = (config.get(key) for key in (TASKS, "lora_rank", "lora_alpha"))
    names = names if isinstance(names, list) else []
    known = ", ".join(map(str, names)) or "none"
    check(name in names, f"The model has no adapter {name!r} in {TASKS} of config.json. Known: {known}.")
    is_right = isinstance(rank, int) and rank > 0 and isinstance(alpha, int | float)
    check(is_right, f"lora_rank is {rank!r} and lora_alpha {alpha!r} in config.json; they must be numbers above 0.")
    return names.index(name), alpha / rank  # type: ignore[operator]


FILE = "model.safetensors"
INDEX = "model.safetensors.index.json"
BIN = "pytorch_model.bin"
BIN_INDEX = "pytorch_model.bin.index.json"
UNSAFE = (BIN_INDEX, "*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
HEADER_LIMIT_BYTES = 100_000_000
_FLOATS = {"F64", "F32", "F16", "BF16"}


class Weights:
    """Context manager over the stored tensors of a folder.

    shapes: name -> shape, from the headers; task: of `task_of`, whose updates are added to what is read, or None.
    """

    task: tuple[int, float] | None = None

    def __init__(self, folder: Path, root: Path | None = None, name: str = FILE) -> None:
        """root: directory where shards may be stored (targets of links in a download cache); default: the folder;
        name: of the file.
        """
        self.folder = folder
        self._stack = ExitStack()
        self._files: dict[str, Any] = {}
        self._int8: set[str] = set()  # stored with a scale per row
        self.shapes: dict[str, tuple[int, ...]] = {}
        try:
            for path in [folder / name] if name != FILE else weight_files(folder, root or folder):
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
        """Returns one tensor converted to float32; any shape, as in `shapes`."""
        file = self._files[name]
        if name in self._int8:
            return from_rows(file.get_tensor(name + VALUES), file.get_tensor(name + SCALES))
        tensor: Tensor = file.get_tensor(name).to(torch.float32)
        stem = name.removesuffix("original") + "0.lora_"
        if self.task is None or not name.endswith(ORIGINAL) or stem + "A" not in self.shapes:
            return tensor
        index, factor = self.task
        down, up = (self._files[stem + part].get_slice(stem + part)[index].float() for part in "AB")
        is_linear = down.shape[-1] == tensor.shape[-1]
        return tensor + (up @ down if is_linear else down @ up) * factor

    def _open(self, path: Path) -> None:
        _check_file(path)
        try:
            file = self._stack.enter_context(safe_open(path, framework="pt"))
        except (SafetensorError, OSError) as error:
            raise CorruptFileError(
                f"{path} is not a complete safetensors file ({error}): download or copy it again."
            ) from None
        names = set(file.keys())
        for stored in names:
            part = file.get_slice(stored)
            name, shape = stored, tuple(part.get_shape())
            if stored.endswith(VALUES) and part.get_dtype() == "I8":
                name = self._matrix_name(path, file, stored, shape)
                self._int8.add(name)
            elif part.get_dtype() not in _FLOATS or stored.removesuffix(SCALES) + VALUES in names:
                continue
            self.shapes[name] = shape
            self._files[name] = file

    def _matrix_name(self, path: Path, file: Any, stored: str, shape: tuple[int, ...]) -> str:
        """The name of an int8 matrix; CorruptFileError unless each of its rows has a scale."""
        name = stored.removesuffix(VALUES)
        has_scales = name + SCALES in file.keys()  # noqa: SIM118 - not a dict
        if not has_scales or tuple(file.get_slice(name + SCALES).get_shape()) != shape[:1]:
            raise CorruptFileError(
                f"{path} stores {name} as int8 without one scale for each of its {shape[0] if shape else 0:,} rows: "
                "download or copy it again."
            )
        return name


def stored_names(folder: Path, root: Path | None = None) -> list[str]:
    """Returns the tensor names of a folder; see `Weights`."""
    with Weights(folder, root) as file:
        return list(file.shapes)


def weight_files(folder: Path, root: Path) -> list[Path]:
    """Returns the weight files, or raises a ModelFolderError that describes what is there instead."""
    if (folder / FILE).is_file():
        return [folder / FILE]
    if (folder / INDEX).is_file():
        return sorted(read_index(folder / INDEX, root))
    unsafe = unsafe_files(folder)
    if unsafe:
        what = folder if unsafe[0].name in (BIN, BIN_INDEX) else unsafe[0]
        raise ModelFolderError(
            f"{folder} contains its weights as a pickle ({unsafe[0].name}), which can run code when it is opened: run "
            f"maskwright export {what} --to folder -o OUT, which reads it safely, and use OUT."
        )
    raise ModelFolderError(
        f"{folder} has no {FILE}: the weights are missing. (Convert a model that only has {BIN} with "
        "maskwright export --to folder.)"
    )


def unsafe_files(folder: Path) -> list[Path]:
    """Returns files that may contain pickled weights, most likely first."""
    found = [file for pattern in UNSAFE for file in sorted(folder.glob(pattern)) if file.is_file()]
    return sorted(found, key=lambda file: file.name not in (BIN, BIN_INDEX))


def read_index(index: Path, root: Path) -> dict[Path, set[str]]:
    """Returns the files listed in a shard index, and the tensors in each. root: where they may be stored.

    Raises:
        CorruptFileError: the index is invalid or lists a missing file.
        ModelFolderError: a listed path is outside the folder.
    """
    content = storage.read_json(index)
    files = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(files, dict) or not files or not all(isinstance(name, str) for name in files.values()):
        raise CorruptFileError(f"{index} does not map tensors to files: download it again.")
    shards: dict[Path, set[str]] = {}
    for tensor, name in files.items():
        if "\0" in name:
            raise CorruptFileError(f"{index} lists {name!a}, which contains a NUL character. Download the file again.")
        path = index.parent / name
        if Path(name).name != name or not path.resolve().is_relative_to(root.resolve()):
            raise ModelFolderError(f"{index} lists '{name}', a path outside the folder, which is not allowed.")
        if path not in shards and not path.is_file():
            raise CorruptFileError(f"{path} is listed in {index.name} but missing. Download or copy it again.")
        shards.setdefault(path, set()).add(tensor)
    return shards


def _check_file(path: Path) -> None:
    """Reject anything but a safetensors file before passing it to the library."""
    with path.open("rb") as handle:
        start = handle.read(8)
    size = path.stat().st_size
    is_zip = start[:4] == b"PK\x03\x04"
    is_bare = start[:1] == b"\x80" and start[1:2] in b"\x02\x03\x04\x05" and start[3:8] != bytes(5)
    if is_zip or is_bare:
        raise ModelFolderError(
            f"{path} is a pickle, not safetensors, despite its name. Opening it could run code, so it is rejected."
        )
    header = int.from_bytes(start, "little")
    if len(start) < 8 or header > min(HEADER_LIMIT_BYTES, size - 8):
        raise CorruptFileError(
            f"{path} is truncated or not a safetensors file: it has {size:,} bytes, but its header claims {header:,}. "
            "Download or copy it again."
        )
