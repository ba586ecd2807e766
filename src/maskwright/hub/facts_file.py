"""Changing what a model folder says about itself, and nothing else in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core import storage
from .folders import FACTS, complete_facts, read_facts, verify


def copy_with_facts(source: Path, target: Path, facts: Mapping[str, Any]) -> None:
    """Write the folder `source` as `target`, its maskwright.json renewed by `facts`; every other file as it is.

    target may be `source`: the folder is replaced in one step. Raises CorruptFileError when `source` differs from its
    manifest, RunError when another `target` exists and is not empty.
    """
    verify(source)
    known = read_facts(source)
    names = sorted(path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file())
    with storage.new_folder(target, replace=target.resolve() == source.resolve()) as new:
        for name in names:
            if name not in (FACTS, storage.MANIFEST):
                storage.write_bytes(new / name, storage.read_bytes(source / name))
        storage.write_json(new / FACTS, complete_facts(known | dict(facts)))
