"""The intermediate models of a run: the best weights of every seed, and those of a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ...core.errors import InputError
from ...core.storage import is_model_folder
from ...hub.folders import load_model
from ...models.adapters import load_trained_state, trained_state
from ...models.model import Model
from ..checkpoint import read_weights
from ..run import RESULT
from .finetune import best_weights

_SEED = re.compile(r"seed-(\d+)")


def is_run(folder: Path) -> bool:
    """Whether a folder is a run folder and not a model folder."""
    return (folder / "config.toml").is_file() and not is_model_folder(folder)


def seed_models(run: Path) -> dict[str, Callable[[], Model]]:
    """Loaders for the model of each seed of a finished fine-tuning run, by name; with one seed, for the run's model.

    Raises InputError when the run is not finished, or is not a fine-tuning run.
    """
    model = run / "model"
    if not (run / RESULT).is_file() or not model.is_dir():
        raise InputError(f"{run} is not a finished fine-tuning run: rerun its command to finish it first.")
    seeds = sorted(
        (int(found[1]), folder)
        for folder in run.glob("seed-*")
        if (found := _SEED.fullmatch(folder.name)) and best_weights(folder).is_dir()
    )
    if len(seeds) < 2:
        return {str(model): lambda: load_model(model)[0]}
    return {str(folder): _opener(model, folder) for _, folder in seeds}


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder is a checkpoint of a run: weights without a model configuration."""
    has = [(folder / name).is_file() for name in ("state.json", "model.safetensors", "config.json")]
    return has == [True, True, False]


def checkpoint_model(folder: Path) -> Model:
    """The model of a finished run with the weights of a checkpoint, such as runs/a/checkpoints/step-500, or of a seed,
    such as runs/b/seed-0/checkpoints/step-500.

    Raises InputError for a run without a model, and for one that also trained another network.
    """
    run = folder.resolve().parent.parent
    model = (run.parent if _SEED.fullmatch(run.name) else run) / "model"
    if not model.is_dir():
        raise InputError(f"{folder} is a checkpoint of an unfinished run: rerun its command to finish it first.")
    found = load_model(model)[0]
    weights = read_weights(folder)
    if weights.keys() != trained_state(found).keys():
        raise InputError(f"{folder} contains weights of another network than {model}: it cannot be shown.")
    load_trained_state(found, weights)
    return found.train(False)


def _opener(model: Path, seed: Path) -> Callable[[], Model]:
    def load() -> Model:
        found = load_model(model)[0]
        load_trained_state(found, read_weights(best_weights(seed)))
        return found.train(False)

    return load
