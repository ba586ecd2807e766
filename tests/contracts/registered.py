"""Everything that is registered, and the contract of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from contracts.families import FAMILY
from contracts.folders import MODEL_FOLDER
from contracts.functions import COMMAND, EXPORT_FORMAT, METRIC, SCHEDULE
from contracts.loggers import LOGGER
from contracts.networks import HEAD, PRESET, shrunk
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
    "model_loader": {},
}


def kinds() -> list[str]:
    """Every kind of thing that has names: those of the registry, and presets."""
    return [*registry.TABLE, "preset"]


def entries() -> list[tuple[str, str]]:
    """(kind, name) of everything registered now, entry points included; of presets that differ in sizes alone, one."""
    own = [(kind, name) for kind in registry.TABLE for name in registry.names(kind)]
    kinds_of_network = {repr(shrunk(name)): name for name in reversed(PRESETS)}
    return own + [("preset", name) for name in reversed(kinds_of_network.values())]
