"""Integrity of model folders written by maskwright: maskwright.json records that a manifest exists.

A tokenizer folder records it in tokenizer_config.json. A missing manifest is therefore an error, not a sign of another
program's folder. Accept intended changes with `maskwright doctor model FOLDER --accept`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import storage
from .errors import CorruptFileError
from .storage import MANIFEST

FACTS, MODEL_CONFIG, ADAPTER_CONFIG = "maskwright.json", "config.json", "adapter_config.json"
EXPORTED = "export"  # entry in FACTS of a folder with a graph instead of weights
RECORD = {"manifest": MANIFEST}  # entry in FACTS of a folder with a manifest


def is_model_folder(folder: Path) -> bool:
    """Returns whether a folder contains a model, whole or as an adapter."""
    return (folder / MODEL_CONFIG).is_file() or (folder / ADAPTER_CONFIG).is_file()


def read_facts(folder: str | Path) -> dict[str, Any]:
    """Reads maskwright.json; empty for a folder of another program. Raises CorruptFileError."""
    path = Path(folder) / FACTS
    if not path.is_file():
        return {}
    facts = storage.read_json(path, fix=fix_for(folder))
    if not isinstance(facts, dict):
        raise CorruptFileError(f"{path} is not a JSON object. {fix_for(folder)}")
    return facts


def fix_for(folder: str | Path) -> str:
    """Returns the suggested fix for a folder that has changed."""
    accept = shlex.join(["maskwright", "doctor", "model", str(folder), "--accept"])
    return f"Restore it from a copy, or, if you changed it on purpose, run {accept}"


def verify_sealed(folder: Path, names: Iterable[str] | None = None, root: Path | None = None) -> bool:
    """Compares a folder with its manifest; returns False for another program's folder without one.

    Args:
        names: Check only these files, if the manifest records them.
        root: Folder that links may point into (a download cache).

    Raises CorruptFileError with the missing or changed file (the manifest itself if maskwright.json records one).
    """
    facts = read_facts(folder)
    is_there = (folder / MANIFEST).is_file() and (bool(facts) or storage.has_manifest(folder))
    if not is_there and not facts.get("manifest"):
        return False
    storage.verify_folder(folder, names=names, root=root, fix=fix_for(folder))
    return True


def changes(folder: Path) -> dict[str, str]:
    """Returns the differences from the manifest: relative path -> change. Without a manifest, all files are new."""
    try:
        recorded = storage.read_manifest(folder)
    except CorruptFileError:
        recorded = {}
    found = {name: storage.difference(folder / name, facts) for name, facts in recorded.items()}
    new = "is new: the manifest does not record it" if recorded else "is new: there was no usable manifest"
    found |= {name: new for name in storage.files_in(folder) if name not in recorded}
    return {name: problem for name, problem in found.items() if problem}


def accept(folder: Path) -> None:
    """Records the current files of a folder in a new manifest, and the manifest in a model's maskwright.json.

    Raises CorruptFileError if maskwright.json cannot be read, StorageError if the folder cannot be written.
    """
    facts = read_facts(folder)
    is_model = bool(facts) or is_model_folder(folder)
    if is_model and facts.get("manifest") != MANIFEST:
        storage.write_json(folder / FACTS, {"format": 1} | facts | RECORD)
    storage.seal_folder(folder)
