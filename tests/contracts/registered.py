"""Everything that is registered, and the contract of each kind."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from contracts.families import FAMILY
from contracts.folders import MODEL_FOLDER
from contracts.functions import COMMAND, EXPORT_FORMAT, METRIC, MODEL_LOADER, SCHEDULE
from contracts.loggers import LOGGER
from contracts.networks import HEAD, PRESET
from contracts.objectives import OBJECTIVE
from contracts.readers import READER
from contracts.tasks import TASK
from contracts.tokenizers import TOKENIZER
from maskwright.core import registry
from maskwright.models.presets import PRESETS

Check = Callable[[str, Path], None]

# Checks by kind: each takes the registered name and an empty folder, and fails for an entry that breaks the contract.
CONTRACTS: dict[str, Mapping[str, Check]] = {
    "preset": PRESET,
    "head": HEAD,
    "task": TASK,
    "reader": READER,
    "logger": LOGGER,
    "objective": OBJECTIVE,
    "tokenizer": TOKENIZER,
    "model_folder": MODEL_FOLDER,
    "family": FAMILY,
    "schedule": SCHEDULE,
    "metric": METRIC,
    "command": COMMAND,
    "export_format": EXPORT_FORMAT,
    "model_loader": MODEL_LOADER,
}
FUNCTIONS = {
    "schedule",
    "metric",
    "reader",
    "logger",
    "command",
    "export_format",
    "model_loader",
}  # which have neither files nor draws


def kinds() -> list[str]:
    """Every kind of thing that has names: those of the registry, and presets."""
    return [*registry.TABLE, "preset"]


def entries() -> list[tuple[str, str]]:
    """(kind, name) of everything registered now, entry points included."""
    own = [(kind, name) for kind in registry.TABLE for name in registry.names(kind)]
    return own + [("preset", name) for name in PRESETS]


def broken(kind: str, name: str) -> dict[str, Exception]:
    """The checks that an entry fails, each with why."""
    failed = {}
    for check, run in CONTRACTS[kind].items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                run(name, Path(folder))
            except Exception as error:
                failed[check] = error
    return failed
