"""Reads and writes the embedding settings of sentence-transformers folders.

`modules.json` lists the modules: the transformer (in the folder itself or a subfolder), a pooling, and optionally
normalization to length 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import ModelFolderError
from ..core.storage import inside, read_json
from ..models.model import SentenceSettings

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
    """pooling: "cls", "mean" or "max"; normalize: whether embeddings have length 1; max_length: tokens, or None."""

    pooling: str = "mean"
    normalize: bool = False
    max_length: int | None = None


def declared_by(folder: Path | str) -> Declared:
    """Read the embedding settings of a folder; defaults if it has none.

    Raises ModelFolderError for an unsupported pooling, module or prompt.
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
            raise ModelFolderError(f"{folder / MODULES} lists the module '{kind}', which is not supported.")
    _check_prompt(folder / PROMPTS)
    return Declared(pooling, normalize, _max_length(network_folder(folder) / LENGTH))


def prompts_of(folder: Path) -> dict[str, str]:
    """Returns the prompts of a folder by name: what can be put before a text, on request.

    Raises ModelFolderError if the folder leaves the tokens of prompts out of its pooling.
    """
    config: Any = read_json(folder / PROMPTS, _LIMIT_BYTES) if (folder / PROMPTS).is_file() else {}
    prompts = config.get("prompts") if isinstance(config, dict) else None
    if not isinstance(prompts, dict):
        return {}
    pooling = folder / _POOLING_FOLDER / "config.json"
    if pooling.is_file() and read_json(pooling, _LIMIT_BYTES).get("include_prompt") is False:
        raise ModelFolderError(f"{pooling} leaves prompts out of the pooling (include_prompt), which is not supported.")
    return {str(name): text for name, text in prompts.items() if isinstance(text, str)}


def network_folder(folder: Path) -> Path:
    """Returns the folder with the transformer: the folder itself, or the subfolder listed in modules.json.

    Raises InputError for a path outside the folder.
    """
    if not (folder / MODULES).is_file():
        return folder
    paths = [str(module.get("path") or "") for kind, module in _modules(folder) if kind == "Transformer"]
    return inside(folder, paths[0]) if paths and paths[0] else folder


def module_folders(folder: Path) -> list[Path]:
    """Returns the subfolders listed in modules.json, one for each module with its own files.

    Raises InputError for a path outside the folder.
    """
    if not (folder / MODULES).is_file():
        return []
    paths = [str(module.get("path") or "") for _, module in _modules(folder)]
    return [inside(folder, path) for path in paths if path]


def declaration_files(declared: SentenceSettings, hidden_size: int, max_length: int) -> dict[str, Any]:
    """Returns the files, as relative path -> JSON content, that `declared_by` reads.

    hidden_size: of the model; max_length: maximum sequence length in tokens.
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
    """Returns the modules with the last component of their class, in order."""
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
        raise ModelFolderError(f"{path} requires a pooling other than cls, mean or max, which is not supported.")
    return chosen[0]


def _check_prompt(path: Path) -> None:
    """Reject a folder that prepends a prompt to every text: ignoring it would change the embeddings."""
    config: Any = read_json(path, _LIMIT_BYTES) if path.is_file() else {}
    prompt = config.get("default_prompt_name") if isinstance(config, dict) else None
    if prompt is not None:
        raise ModelFolderError(f"{path} prepends the prompt {prompt!r} to every text, which is not supported.")


def _max_length(path: Path) -> int | None:
    config: Any = read_json(path, _LIMIT_BYTES) if path.is_file() else {}
    length = config.get("max_seq_length") if isinstance(config, dict) else None
    return length if isinstance(length, int) and length > 2 else None
