"""A model folder whose weights are a pickle becomes one with safetensors.

The `.bin` is read by `hub.foreign`, which executes nothing of it. Everything else of the folder is copied, but for code
and for what names code. The new folder must load before it appears.
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
from . import weights
from .config_file import FolderConfig, read_config
from .download import find_folder
from .folders import FACTS, complete_facts, load_model
from .foreign.reader import read_bin
from .sentence import module_folders, network_folder

LARGEST_COPY_BYTES = 256 << 20
_COPIED = ("*.json", "*.txt", "*.model", "*.spm", "README.md", "LICENSE*")
_LEFT = ("*.index.json", FACTS, storage.MANIFEST, ".*")


@dataclass
class Converted:
    """What was made.

    files: the weight files; num_tensors, num_bytes: of the tensors in them; dtypes: how many tensors of each; tied:
    names that were left out, because they stand for a tensor that is stored under another name.
    """

    folder: Path
    files: list[str] = field(default_factory=list)
    num_tensors: int = 0
    num_bytes: int = 0
    dtypes: dict[str, int] = field(default_factory=dict)
    tied: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Source:
    """root: the folder that was meant; real: where its files may really lie; network: where config.json is; bins: the
    files to read, and the tensors that an index promises of each.
    """

    root: Path
    real: Path
    network: Path
    bins: Mapping[Path, set[str]]


def convert(source: str | Path, output: str | Path) -> Converted:
    """Write the model of `source` into the new folder `output`.

    source: a folder with pytorch_model.bin (whole, or shards with an index), such a file itself, or a name of the hub.
    Tensors keep their names, shapes, dtypes and bits. Raises InputError when there is nothing to convert,
    ModelFolderError or CorruptFileError for what is no model or no plain table of weights, RunError when `output`
    exists and is not empty.
    """
    found = _find(source)
    stored = read_config(found.network)
    with storage.new_folder(output) as new:
        network = new / found.network.resolve().relative_to(found.root.resolve())
        done = _write_weights(found, stored, network)
        for path, place in _companions(found):
            _copy(path, new / place, found.real)
        read = {path.name: storage.sha256(path) for path in found.bins}
        storage.write_json(new / FACTS, complete_facts({"converted_from": read}))
        _check(new, found.root)
    done.folder = Path(output)
    return done


# -- what there is -----------------------------------------------------------------------------------------------


def _find(source: str | Path) -> _Source:
    path = Path(source)
    if path.is_file() and path.name != weights.BIN_INDEX:
        if path.suffix == ".safetensors":
            raise InputError(f"{path} is safetensors already: there is nothing to convert.")
        return _Source(path.parent, path.parent, path.parent, {path: set()})
    root, real = find_folder(path.parent if path.is_file() else source, also=("pytorch_model*.bin",))
    network = network_folder(root)
    for name in (weights.FILE, weights.INDEX):
        if (network / name).is_file():
            raise InputError(f"{network} has {name} already: it needs no conversion.")
    if (network / weights.BIN).is_file():
        return _Source(root, real, network, {network / weights.BIN: set()})
    if (network / weights.BIN_INDEX).is_file():
        return _Source(root, real, network, weights.read_index(network / weights.BIN_INDEX, real))
    others = weights.unsafe_files(network)
    hint = f"; if its weights are in {others[0].name}, name that file" if others else ""
    raise InputError(f"{network} has no {weights.BIN}: there is nothing to convert{hint}.")


def _companions(found: _Source) -> Iterator[tuple[Path, Path]]:
    """Every other file that belongs to the model, and its place below the folder."""
    root = found.root.resolve()
    for folder in dict.fromkeys([root, found.network.resolve(), *module_folders(found.root)]):
        for path in sorted({path for pattern in _COPIED for path in folder.glob(pattern)}):
            if path.is_file() and not any(path.match(pattern) for pattern in _LEFT):
                yield path, path.relative_to(root)


def _copy(path: Path, target: Path, real: Path) -> None:
    """Copy one file, if it is not a link to somewhere else. Of JSON, what names code to run on load is left out."""
    if not path.resolve().is_relative_to(real.resolve()):
        raise ModelFolderError(f"{path} is a link that leads out of the folder: refused.")
    data = storage.read_bytes(path, LARGEST_COPY_BYTES)
    content: Any = storage.read_json(path) if b'"auto_map"' in data and path.suffix == ".json" else None
    if isinstance(content, dict) and "auto_map" in content:
        storage.write_json(target, {name: value for name, value in content.items() if name != "auto_map"})
    else:
        storage.write_bytes(target, data)


# -- what is made ------------------------------------------------------------------------------------------------


def _write_weights(found: _Source, stored: FolderConfig, folder: Path) -> Converted:
    """Read each file and write what it holds as one of safetensors; with an index if there are several."""
    done = Converted(folder)
    where: dict[str, str] = {}
    for number, (path, promised) in enumerate(sorted(found.bins.items()), start=1):
        note(f"Reading {path} in a process that can execute nothing of it ...")
        name = weights.FILE if len(found.bins) == 1 else f"model-{number:05}-of-{len(found.bins):05}.safetensors"
        tensors, tied = _tensors(path, stored)
        absent = sorted(promised - tensors.keys() - set(tied))
        twice = sorted(tensors.keys() & where.keys())
        if absent or twice:
            said = f"lacks {absent[0]}, which the index promises" if absent else f"holds {twice[0]} a second time"
            raise CorruptFileError(f"{path} {said}: the files do not belong together. Fetch them again.")
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
    """The tensors of one file by name, and the names that are left out."""
    tensors: dict[str, Tensor] = {}
    left_out = []
    for names, tensor in read_bin(path):
        tied = _tied(names, stored)
        left_out += tied
        for name in names:
            if name not in tied:  # a further name of a tensor that is not tied has numbers of its own
                tensors[name] = tensor if name == names[0] else tensor.clone()
    return tensors, left_out


def _tied(names: tuple[str, ...], stored: FolderConfig) -> list[str]:
    """Of names that share one tensor, those of a decoder that loading makes of the word table, and of its bias."""
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
    """Load the encoder of the new folder, and its tokenizer; an error speaks of the folder that it came from."""
    try:
        load_model(new, None)
    except ModelFolderError as error:
        raise type(error)(str(error).replace(str(new), str(root))) from None
