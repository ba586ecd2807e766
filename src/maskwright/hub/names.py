"""Display names for models specified by folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def short_names(sources: Sequence[str]) -> list[str]:
    """Returns the shortest distinct path suffixes, ignoring a trailing `model` as in run folders."""
    parts = [Path(source).resolve().parts if Path(source).exists() else tuple(source.split("/")) for source in sources]
    parts = [own[:-1] if len(own) > 1 and own[-1] == "model" else own for own in parts]
    for length in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(own[-length:]) for own in parts]
        if len(set(names)) == len(names):
            return names
    return list(sources)
