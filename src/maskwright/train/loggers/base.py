"""What a logger does, and which ones a run has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from ...core import registry

_NOT_SHOWN = ("step", "time", "seconds", "tokens")


class Logger(Protocol):
    """The log of one run folder for another program. Made as `Logger(folder, recipe)`; making one writes nothing.

    path: a file that exists once the logger has written something.
    """

    path: Path

    def check(self) -> None:
        """Raise MissingExtraError if a package is missing."""

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one record of metrics.jsonl."""

    def rewrite(self, records: Iterable[Mapping[str, Any]]) -> None:
        """The log now consists of these records: it was rolled back to a checkpoint, or the logger was added later."""

    def close(self, is_finished: bool) -> None:
        """The process ends its work on the folder. is_finished: and has finished the run."""


def loggers_of(folder: Path, recipe: Mapping[str, Any]) -> list[Logger]:
    """The loggers that the recipe names, and those that have begun: otherwise they would lack the new steps."""
    named = {*recipe.get("log", ()), *(["tensorboard"] if recipe.get("tensorboard") else [])}
    made = {name: registry.resolve("logger", name)(folder, recipe) for name in registry.names("logger")}
    return [one for name, one in made.items() if name in named or one.path.exists()]


def scalars(record: Mapping[str, Any]) -> dict[str, float]:
    """The scalars of a record by tag: "train/loss", "eval/mlm_accuracy", "speed/tokens_per_second"."""
    found = {}
    for name, value in record.items():
        if name in _NOT_SHOWN or isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        group = "eval" if name.startswith("eval_") else "speed" if name.endswith("_per_second") else "train"
        found[f"{group}/{name.removeprefix('eval_')}"] = float(value)
    return found


def settings(recipe: Mapping[str, Any]) -> dict[str, str]:
    """The recipe as texts by name, with tables and lists written out."""
    return {name: str(value) for name, value in recipe.items() if value not in (None, "", (), [], {})}


def finite(values: Mapping[str, float]) -> dict[str, float]:
    """The values that are numbers."""
    return {name: value for name, value in values.items() if math.isfinite(value)}
