"""Training checkpoints: weights, optimizer state and step, as safetensors and JSON; complete or absent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from ..core import storage
from ..core.errors import CorruptFileError
from ..core.progress import warn
from ..models.adapters import trained_state

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_STEP = re.compile(r"step-(\d+)")


@dataclass
class Checkpoint:
    """All that a run needs to resume exactly. `state` is JSON: step, stream position, log sums."""

    step: int
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]


def restore_moments(model: nn.Module, optimizer: torch.optim.Optimizer, moments: Iterable[tuple[str, Tensor]]) -> None:
    """Set the optimizer state to the items of what `moments_of` returned."""
    names = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    for key, value in moments:
        moment, _, name = key.partition("/")
        # The step counter stays on the CPU unless the optimizer is fused on a GPU; torch moves it there itself.
        parameter = names[name]
        target = value if moment == "step" else value.to(parameter.device)
        optimizer.state[parameter][moment] = target


def save_checkpoint(
    folder: Path, step: int, model: nn.Module, moments: Mapping[str, Tensor], state: dict[str, Any], keep: int
) -> Path:
    """Write `folder/step-N` (complete or absent) and remove all but the newest `keep`. Returns its path.

    moments: see `moments_of`.
    """
    target = folder / f"step-{step}"
    if not target.exists():
        with storage.new_folder(target) as new:
            write_tensors(new / "model.safetensors", trained_state(model))
            write_tensors(new / "optimizer.safetensors", moments)
            storage.write_json(new / "state.json", {"step": step, **state})
    for _, old in list_checkpoints(folder)[:-keep]:
        storage.remove_folder(old)
    return target


def list_checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """The checkpoints of a run, oldest first."""
    found = ((_STEP.fullmatch(path.name), path) for path in folder.glob("step-*"))
    return sorted((int(match[1]), path) for match, path in found if match)


def load_latest(folder: Path) -> Checkpoint | None:
    """The newest intact checkpoint; warns of each damaged one.

    Raises CorruptFileError when there are checkpoints and every one is damaged.
    """
    damaged = None
    for step, path in reversed(list_checkpoints(folder)):
        try:
            return _read(step, path)
        except CorruptFileError as error:
            warn(f"{error} Trying the previous checkpoint.")
            damaged = error
    if damaged is not None:
        raise CorruptFileError(
            f"No checkpoint in {folder} is intact: restart from scratch with --restart. Last: {damaged}"
        )
    return None


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint or of a run's best model. Raises CorruptFileError when they changed."""
    storage.verify_folder(folder)
    return _tensors(folder / "model.safetensors")


def _read(step: int, path: Path) -> Checkpoint:
    storage.verify_folder(path)
    weights, optimizer = (_tensors(path / name) for name in ("model.safetensors", "optimizer.safetensors"))
    return Checkpoint(step, weights, optimizer, storage.read_json(path / "state.json"))


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = safetensors.torch.load(storage.read_bytes(path))
    except SafetensorError as error:
        raise CorruptFileError(f"{path} cannot be read ({error}).") from None
    return tensors


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file, with the bytes of `safetensors.torch.save`, which needs its size in memory twice.

    Tensors that share memory (tied weights) are stored once each.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {}
    end = 0
    for name in order:
        tensor = tensors[name]
        start, end = end, end + tensor.nbytes
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with storage.open_new(path) as target:
        storage.fs.write(target, len(text).to_bytes(8, "little") + text)
        for name in order:
            data = tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            storage.fs.write(target, data.data)


def moments_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Adam's moments by parameter name: "exp_avg/NAME", "exp_avg_sq/NAME", "step/NAME"."""
    return {
        f"{moment}/{name}": value.detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        for moment, value in optimizer.state.get(parameter, {}).items()
    }


def mean_weights(folders: Sequence[Path]) -> dict[str, Tensor]:
    """Averages the weights of models that started from the same pre-trained ones: the mean of each tensor.

    Wortsman et al. 2022, "Model soups", section 2 (the uniform soup). Models trained from scratch end in different
    basins of the loss, so their mean does not work. Summed in float64, one folder at a time, so at most two models
    are in memory. Raises CorruptFileError when a file changed on disk.

    folders: the best weights of each seed.
    """
    first = read_weights(folders[0])
    sums = {name: tensor.double() for name, tensor in first.items()}
    for folder in folders[1:]:
        for name, tensor in read_weights(folder).items():
            sums[name] += tensor
    return {name: (total / len(folders)).to(first[name].dtype) for name, total in sums.items()}
