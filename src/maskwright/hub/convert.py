"""Converts a model folder with pickled weights to safetensors.

`hub.pickled` reads the `.bin` files in a confined process. All other files are copied, except code and references
to code. The new folder appears only after it has been loaded successfully.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import save as to_safetensors
from torch import Tensor

from ..core import storage
from ..core.errors import CorruptFileError, InputError, ModelFolderError
from ..core.progress import note
from ..core.storage import FACTS
from . import config_file, weights
from .adapters import FACT as ADAPTER
from .adapters import is_adapter
from .config_file import FolderConfig, read_config
from .download import find_folder
from .folders import complete_facts, load_model, merged, read_facts, save_model
from .pickled import read_bin
from .sentence import module_folders, network_folder

LARGEST_COPY_BYTES = 256 << 20
_COPIED = ("*.json", "*.txt", "*.model", "*.spm", "README.md", "LICENSE*")
_LEFT = ("*.index.json", FACTS, storage.MANIFEST, ".*")


@dataclass
class Conversion:
    """Result of a conversion.

    files: weight files written; num_tensors, num_bytes: tensors in them; dtypes: number of tensors by dtype; tied:
    tensor names that were dropped because they alias a tensor stored under another name.
    """

    folder: Path
    files: list[str] = field(default_factory=list)
    num_tensors: int = 0
    num_bytes: int = 0
    dtypes: dict[str, int] = field(default_factory=dict)
    tied: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Source:
    """root: folder that the user specified; real: directory where its files are stored; network: folder with
    config.json; bins: files to read, each with the tensors that the index lists for it.
    """

    root: Path
    real: Path
    network: Path
    bins: Mapping[Path, set[str]]


def convert(source: str | Path, output: str | Path) -> Conversion:
    """Convert the model of `source` and write it to the new folder `output`.

    Tensors keep their names, shapes, dtypes and bits. An adapter is merged with its base.

    Args:
        source: Folder with pytorch_model.bin (one file, or shards with an index), such a file, a Hub model ID, or an
            adapter.
        output: Folder to create.

    Raises:
        InputError: there is nothing to convert.
        ModelFolderError, CorruptFileError: not a model folder, or not a plain weights file.
        RunError: `output` exists and is not empty.
    """
    found = _find(source)
    if found is None:
        return store_as(source, output, "fp32")
    stored = read_config(
        found.network, lambda: [n for path in found.bins for names, _ in read_bin(path) for n in names]
    )
    with storage.new_folder(output) as new:
        network = new / found.network.resolve().relative_to(found.root.resolve())
        done = _write_weights(found, stored, network)
        for path, place in _companions(found):
            _copy(path, new / place, found.real)
        _write_model_type(network / config_file.FILE, stored)
        read = {path.name: storage.sha256(path) for path in found.bins}
        _check(new, found.root)
        storage.write_json(new / FACTS, complete_facts({"converted_from": read}))
    done.folder = Path(output)
    return done


def store_as(source: str | Path, output: str | Path, weights_as: str, adapter: str | None = None) -> Conversion:
    """Copy the model of `source` (a model folder or Hub model ID) to the new folder `output`, its weights stored as
    "fp16", "bf16", "int8" or "fp32" (see `save_model`). adapter: see `load_model`.

    Head, labels, tokenizer, declaration and facts stay; an adapter is merged with its base. Raises the errors of
    `load_model` and `save_model`, and InputError for a folder without the weights of its head.
    """
    model, report = load_model(source, adapter=adapter)
    if report.new:
        raise InputError(f"{source} has no weights for {', '.join(report.new[:3])}: only a complete model is copied.")
    facts = read_facts(find_folder(source)[0])
    kept = {name: value for name, value in facts.items() if name not in ("format", "version", "versions")}
    kept.pop(ADAPTER, None)
    save_model(merged(model), output, facts=kept, weights_as=weights_as)
    with weights.Weights(Path(output)) as written:
        count = len(written.shapes)
    size = (Path(output) / weights.FILE).stat().st_size
    return Conversion(Path(output), [weights.FILE], count, size, {weights_as: count})


# -- source files ------------------------------------------------------------------------------------------------


def _find(source: str | Path) -> _Source | None:
    """Returns what is to be read; None for an adapter."""
    path = Path(source)
    if path.is_file() and path.name != weights.BIN_INDEX:
        if path.suffix == ".safetensors":
            raise InputError(f"{path} is already safetensors: there is nothing to convert.")
        return _Source(path.parent, path.parent, path.parent, {path: set()})
    root, real = find_folder(path.parent if path.is_file() else source, also=("pytorch_model*.bin",))
    if is_adapter(root):
        return None
    network = network_folder(root)
    for name in (weights.FILE, weights.INDEX):
        if (network / name).is_file():
            raise InputError(f"{network} already has {name}: no conversion needed.")
    if (network / weights.BIN).is_file():
        return _Source(root, real, network, {network / weights.BIN: set()})
    if (network / weights.BIN_INDEX).is_file():
        return _Source(root, real, network, weights.read_index(network / weights.BIN_INDEX, real))
    others = weights.unsafe_files(network)
    hint = f"; if its weights are in {others[0].name}, specify that file" if others else ""
    raise InputError(f"{network} has no {weights.BIN}: there is nothing to convert{hint}.")


def _companions(found: _Source) -> Iterator[tuple[Path, Path]]:
    """Yields every other file of the model and its relative path."""
    root = found.root.resolve()
    for folder in dict.fromkeys([root, found.network.resolve(), *module_folders(found.root)]):
        for path in sorted({path for pattern in _COPIED for path in folder.glob(pattern)}):
            if path.is_file() and not any(path.match(pattern) for pattern in _LEFT):
                yield path, path.relative_to(root)


def _copy(path: Path, target: Path, real: Path) -> None:
    """Copy one file unless it links outside the folder; references to code are removed from JSON files."""
    if not path.resolve().is_relative_to(real.resolve()):
        raise ModelFolderError(f"{path} is a link to a path outside the folder, which is not allowed.")
    data = storage.read_bytes(path, LARGEST_COPY_BYTES)
    content: Any = storage.read_json(path) if b'"auto_map"' in data and path.suffix == ".json" else None
    if isinstance(content, dict) and "auto_map" in content:
        storage.write_json(target, {name: value for name, value in content.items() if name != "auto_map"})
    else:
        storage.write_bytes(target, data)


def _write_model_type(path: Path, stored: FolderConfig) -> None:
    """Add an inferred model_type to a config.json without one, so that later loads need not infer it."""
    values = storage.read_json(path)
    if values.get("model_type") is None:
        storage.write_json(path, {**values, "model_type": stored.family.model_type})


# -- writing -----------------------------------------------------------------------------------------------------


def _write_weights(found: _Source, stored: FolderConfig, folder: Path) -> Conversion:
    """Write each source file as safetensors, with an index if there are several."""
    done = Conversion(folder)
    where: dict[str, str] = {}
    for number, (path, promised) in enumerate(sorted(found.bins.items()), start=1):
        note(f"Reading {path} in a sandboxed process ...")
        name = weights.FILE if len(found.bins) == 1 else f"model-{number:05}-of-{len(found.bins):05}.safetensors"
        tensors, tied = _tensors(path, stored)
        absent = sorted(promised - tensors.keys() - set(tied))
        twice = sorted(tensors.keys() & where.keys())
        if absent or twice:
            said = f"lacks {absent[0]}, which the index lists" if absent else f"contains {twice[0]} a second time"
            raise CorruptFileError(f"{path} {said}: the files do not belong together. Download them again.")
        storage.write_bytes(folder / name, to_safetensors(tensors, metadata={"format": "pt"}))
        where |= dict.fromkeys(tensors, name)
        done.files.append(name)
        done.num_tensors += len(tensors)
        done.num_bytes += sum(tensor.nbytes for tensor in tensors.values())
        for tensor in tensors.values():
            dtype = str(tensor.dtype).removeprefix("torch.")
            done.dtypes[dtype] = done.dtypes.get(dtype, 0) + 1
        done.tied += tied
    if len(found.bins) > 1:
        index = {"metadata": {"total_size": done.num_bytes}, "weight_map": dict(sorted(where.items()))}
        storage.write_json(folder / weights.INDEX, index)
    return done


def _tensors(path: Path, stored: FolderConfig) -> tuple[dict[str, Tensor], list[str]]:
    """Returns the tensors of one file by name, and the names that are dropped."""
    tensors: dict[str, Tensor] = {}
    left_out = []
    for names, tensor in read_bin(path):
        tied = _tied(names, stored)
        left_out += tied
        for name in names:
            if name not in tied:  # an alias that loading does not tie needs its own copy
                tensors[name] = tensor if name == names[0] else tensor.clone()
    return tensors, left_out


def _tied(names: tuple[str, ...], stored: FolderConfig) -> list[str]:
    """Of names that alias one tensor, returns those of a decoder weight or bias that loading ties."""
    if len(names) == 1 or not stored.config.tie_word_embeddings:
        return []
    family = stored.family
    by_canonical = {family.canonical(name): name for name in names}
    found = []
    for head in family.heads:
        weight, decoder_bias, head_bias = family.decoder(head) or ("", "", "")
        for copy, original in ((weight, family.words), (decoder_bias, head_bias)):
            if copy != original and copy in by_canonical and original in by_canonical:
                found.append(by_canonical[copy])
    return list(dict.fromkeys(found))


def _check(new: Path, root: Path) -> None:
    """Load the encoder and tokenizer of the new folder; errors refer to the source folder."""
    try:
        load_model(new, None)
    except ModelFolderError as error:
        raise type(error)(str(error).replace(str(new), str(root))) from None
