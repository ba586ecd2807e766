"""Sentence-transformers folders: what they say about their own vectors, read and written.

`modules.json` lists the steps: the network (in the folder itself or in one below), a pooling, perhaps a scaling to
length 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import ModelFolderError
from ..core.storage import inside, read_json

MODULES, LENGTH, PROMPTS = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
_POOLING_FOLDER = "1_Pooling"
_LIMIT_BYTES = 1 << 20
_POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
}


@dataclass(frozen=True)
class Declared:
    """pooling: "cls", "mean" or "max"; normalize: whether vectors have length 1; max_length: tokens, or None."""

    pooling: str = "mean"
    normalize: bool = False
    max_length: int | None = None


def declared_by(folder: Path | str) -> Declared:
    """Read the declaration of a folder; the defaults where it has none.

    Raises ModelFolderError for a pooling, a module or a prompt that is not supported.
    """
    folder = Path(folder)
    if not (folder / MODULES).is_file():
        return Declared()
    pooling, normalize = "mean", False
    for kind, module in _modules(folder):
        if kind == "Pooling":
            pooling = _pooling(inside(folder, str(module.get("path", ""))) / "config.json")
        elif kind == "Normalize":
            normalize = True
        elif kind != "Transformer":
            raise ModelFolderError(f"{folder / MODULES} names the module '{kind}', which is not supported.")
    _check_prompt(folder / PROMPTS)
    return Declared(pooling, normalize, _max_length(network_folder(folder) / LENGTH))


def network_folder(folder: Path) -> Path:
    """Where the network of a folder lies: in it, or in the folder below that modules.json names.

    Raises InputError for a path that leads out of the folder.
    """
    if not (folder / MODULES).is_file():
        return folder
    paths = [str(module.get("path") or "") for kind, module in _modules(folder) if kind == "Transformer"]
    return inside(folder, paths[0]) if paths and paths[0] else folder


def module_folders(folder: Path) -> list[Path]:
    """The folders below `folder` that modules.json names, one for each step that has files of its own.

    Raises InputError for a path that leads out of the folder.
    """
    if not (folder / MODULES).is_file():
        return []
    paths = [str(module.get("path") or "") for _, module in _modules(folder)]
    return [inside(folder, path) for path in paths if path]


def declaration_files(declared: Declared, hidden_size: int, max_length: int) -> dict[str, Any]:
    """The files, by path below the folder and content as JSON, that `declared_by` reads back.

    hidden_size: of the network; max_length: tokens that it takes.
    """
    kinds = ["Transformer", "Pooling", *(["Normalize"] if declared.normalize else [])]
    modules = [
        {
            "idx": index,
            "name": str(index),
            "path": f"{index}_{kind}" if index else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for index, kind in enumerate(kinds)
    ]
    flags = {flag: name == declared.pooling for flag, name in _POOLING_FLAGS.items()}
    return {
        MODULES: modules,
        f"{_POOLING_FOLDER}/config.json": {"word_embedding_dimension": hidden_size, **flags},
        LENGTH: {"max_seq_length": declared.max_length or max_length, "do_lower_case": False},
    }


def _modules(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """The modules with the last part of their class, in order."""
    modules = read_json(folder / MODULES, _LIMIT_BYTES)
    if not isinstance(modules, list):
        raise ModelFolderError(f"{folder / MODULES} is not a list of modules.")
    whole = [module if isinstance(module, dict) else {} for module in modules]
    return [(str(module.get("type", "")).rpartition(".")[2], module) for module in whole]


def _pooling(path: Path) -> str:
    config: Any = read_json(path, _LIMIT_BYTES)
    if not isinstance(config, dict):
        raise ModelFolderError(f"{path} is not a JSON object.")
    chosen = [name for flag, name in _POOLING_FLAGS.items() if config.get(flag)]
    named = config.get("pooling_mode")
    if isinstance(named, str):
        chosen = [named]
    others = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    if len(chosen) != 1 or chosen[0] not in _POOLING_FLAGS.values() or set(others) - set(_POOLING_FLAGS):
        raise ModelFolderError(f"{path} asks for a pooling other than cls, mean or max, which is not supported.")
    return chosen[0]


def _check_prompt(path: Path) -> None:
    """Refuse a folder that puts a prompt before every text: without it the vectors would be others."""
    config: Any = read_json(path, _LIMIT_BYTES) if path.is_file() else {}
    prompt = config.get("default_prompt_name") if isinstance(config, dict) else None
    if prompt is not None:
        raise ModelFolderError(f"{path} puts the prompt {prompt!r} before every text, which is not supported.")


def _max_length(path: Path) -> int | None:
    config: Any = read_json(path, _LIMIT_BYTES) if path.is_file() else {}
    length = config.get("max_seq_length") if isinstance(config, dict) else None
    return length if isinstance(length, int) and length > 2 else None
