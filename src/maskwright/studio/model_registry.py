"""State of the studio: the loaded models, and the directory of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import Any

from ..api import open_checkpoint, open_model
from ..core.errors import InputError, MissingFileError
from ..core.storage import is_model_folder
from ..http.model_registry import LoadedModel, load_models
from ..hub.published import ENGLISH
from ..models.model import Model
from .files import LabeledFiles, TextFiles, Uploads
from .run_folders import Jobs, checkpoints_of, find_run

__all__ = ["LoadedModel", "Studio", "load_models"]

OWN = ".studio"  # subdirectory of the runs directory for uploaded files and recipes


class Studio:
    """Models by name, training runs, and one lock: a single computation at a time uses all threads.

    Args:
        models: Loaded models.
        runs: Directory of run folders, the only one that pages read or write. It need not exist yet.
        device: Device of models that are loaded later.
        precision: Precision of models that are loaded later.
    """

    def __init__(
        self, models: Sequence[LoadedModel], runs: Path, device: str = "auto", precision: str = "auto"
    ) -> None:
        self.models = {model.name: model for model in models}
        self.runs = runs
        self.jobs = Jobs()
        self.uploads = Uploads(runs / OWN / "uploads")
        self.labeled = LabeledFiles(self.uploads)
        self.texts = TextFiles(self.uploads)
        self.computing = RLock()
        self.lessons: dict[str, Any] = {}  # the newest results by the address of their page
        self.device, self.precision = device, precision
        self._english: LoadedModel | None = None  # loaded when words are proposed for a model that cannot fill masks

    def model(self, name: str) -> LoadedModel:
        """Returns the model with this name. Raises MissingFileError if there is none."""
        if name not in self.models:
            raise MissingFileError("No model of this name is loaded: select one from the list.")
        return self.models[name]

    def proposer_for(self, name: str) -> Model:
        """Returns the masked language model that proposes words: the model itself if it can, else `english`."""
        found = self.model(name)
        if found.kind.can("fill-mask"):
            return found.model
        if self._english is None:
            self._english = self.models.get(ENGLISH) or LoadedModel(
                ENGLISH, ENGLISH, open_model(ENGLISH, (), self.device, self.precision)
            )
        return self._english.model

    def load_run_model(self, name: str, step: int | None = None) -> LoadedModel:
        """Loads the model of a finished run under the run's name, or that of a checkpoint as `run@step`.

        Raises MissingFileError if there is none.
        """
        run = find_run(self.runs, name).path
        folder = run / "model"
        if not is_model_folder(folder) or folder.is_symlink():
            raise MissingFileError("This run has no model yet: it is saved at the end.")
        with self.computing:
            if step is None:
                own = LoadedModel(name, str(folder), open_model(folder, (), self.device, self.precision))
            else:
                checkpoint = checkpoints_of(run) / f"step-{step}"
                if not checkpoint.is_dir() or checkpoint.is_symlink():
                    raise MissingFileError(f"{name} has no checkpoint of step {step}: select one from the list.")
                opened = open_checkpoint(checkpoint, device=self.device, precision=self.precision)
                own = LoadedModel(f"{name}@{step}", str(folder), opened)
            self.models = {**self.models, own.name: own}
        return own

    def model_with(self, name: str, *abilities: str) -> LoadedModel:
        """Returns the model with this name. Raises InputError if it has none of the abilities."""
        found = self.model(name)
        if not found.kind.can(*abilities):
            raise InputError(f"{found.name} is {found.kind.description}, which does not do this.")
        return found
