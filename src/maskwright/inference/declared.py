"""What a sentence-transformers folder says about its own vectors: modules.json and the folders that it names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import ModelFolderError
from ..core.storage import inside, read_json

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

    Raises ModelFolderError for a pooling that is not supported.
    """
    folder = Path(folder)
    if not (folder / "modules.json").is_file():
        return Declared()
    modules = read_json(folder / "modules.json", _LIMIT_BYTES)
    if not isinstance(modules, list):
        raise ModelFolderError(f"{folder / 'modules.json'} is not a list of modules.")
    pooling, normalize = "mean", False
    for module in modules:
        kind = str(module.get("type", "")).rpartition(".")[2] if isinstance(module, dict) else ""
        if kind == "Pooling":
            pooling = _pooling(inside(folder, str(module.get("path", ""))) / "config.json")
        elif kind == "Normalize":
            normalize = True
        elif kind != "Transformer":
            raise ModelFolderError(f"{folder / 'modules.json'} names the module '{kind}', which is not supported.")
    return Declared(pooling, normalize, _max_length(folder / "sentence_bert_config.json"))


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


def _max_length(path: Path) -> int | None:
    config: Any = read_json(path, _LIMIT_BYTES) if path.is_file() else {}
    length = config.get("max_seq_length") if isinstance(config, dict) else None
    return length if isinstance(length, int) and length > 2 else None
