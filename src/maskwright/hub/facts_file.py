"""Updates maskwright.json in a model folder without changing other files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core import storage
from ..core.sealed import FACTS, read_facts, verify_sealed
from .folders import complete_facts


def copy_with_facts(source: Path, target: Path, facts: Mapping[str, Any]) -> None:
    """Copy the folder `source` to `target` with maskwright.json updated by `facts`.

    If `target` is `source`, the folder is replaced atomically. Raises CorruptFileError if `source` does not match its
    manifest, RunError if a different `target` exists and is not empty.
    """
    verify_sealed(source)
    known = read_facts(source)
    names = sorted(path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file())
    with storage.new_folder(target, replace=target.resolve() == source.resolve()) as new:
        for name in names:
            if name not in (FACTS, storage.MANIFEST):
                storage.write_bytes(new / name, storage.read_bytes(source / name))
        storage.write_json(new / FACTS, complete_facts(known | dict(facts)))
