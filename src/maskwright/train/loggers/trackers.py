"""Weights & Biases and MLflow as loggers of a run."""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from ...core import storage
from ...core.errors import MissingExtraError
from ...core.progress import warn
from .base import finite, scalars, settings

# -- What loggers of tracking programs share: such a program has no rollback, so repeated steps are not sent again
#
# A small file in the run folder has the name of the run in the program and the number of records sent. The records of a
# resumed run are those that it had before, so skipping the first ones sent loses nothing.


class Tracker(ABC):
    """A logger of a tracking program. name: of its extra and of its module."""

    name: ClassVar[str]

    def __init__(self, folder: Path, recipe: Mapping[str, Any]) -> None:
        self.folder, self.recipe = folder, recipe
        self.path = folder / f"{self.name}.json"
        self._run: str | None = None
        self._sent = 0
        self._position = 0  # records that the log has
        self._is_broken = False
        if self.path.exists():
            state = storage.read_json(self.path)
            self._run, self._sent = state["run"], state["sent"]
            self._position = self._sent

    def check(self) -> None:
        """Raise MissingExtraError if the package is missing."""
        if find_spec(self.name) is None:
            raise MissingExtraError(f"--log {self.name}", self.name)

    def append(self, record: Mapping[str, Any]) -> None:
        """Send a record, unless it was sent before the log was rolled back."""
        self._position += 1
        if self._position > self._sent:
            self._send([record])

    def rewrite(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Send those of the records that were not sent."""
        records = list(records)
        self._position = len(records)
        if records[self._sent :]:
            self._send(records[self._sent :])

    def close(self, is_finished: bool) -> None:
        """End the run in the program, if this process sent anything."""
        self._attempt(lambda: self.end(is_finished))

    @abstractmethod
    def begin(self, run: str | None) -> str:
        """Begin a run, or continue `run`. Returns its name in the program."""

    @abstractmethod
    def send(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Send records, after `begin`."""

    @abstractmethod
    def end(self, is_finished: bool) -> None:
        """After the last record, also if none was sent. is_finished: whether the run is."""

    def _send(self, records: Sequence[Mapping[str, Any]]) -> None:
        def attempt() -> None:
            self._run = self.begin(self._run)
            self.send(records)
            self._sent += len(records)
            storage.write_json(self.path, {"run": self._run, "sent": self._sent})

        self._attempt(attempt)

    def _attempt(self, action: Any) -> None:
        """A failure of the program is none of the training: warn once; a resumed run sends what is missing."""
        if self._is_broken:
            return
        try:
            action()
        except Exception as error:  # whatever the program raises
            self._is_broken = True
            warn(f"{self.name} failed ({error}): training continues without it, and the log has everything.")


# -- Weights & Biases. Without WANDB_MODE=online the run is written to `wandb/` in the run folder, for `wandb sync`


class WandbLogger(Tracker):
    """A run of Weights & Biases."""

    name: ClassVar[str] = "wandb"
    _open: Any = None

    def begin(self, run: str | None) -> str:
        """Open the run once; a resumed training continues the same one."""
        if self._open is None:
            import wandb

            run = run or secrets.token_hex(8)
            mode: Any = os.environ.get("WANDB_MODE", "offline")  # wandb checks it
            self._open = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "maskwright"),
                dir=str(self.folder),
                id=run,
                name=os.environ.get("WANDB_NAME", str(self.folder)),
                resume="allow",
                mode=mode,
                config=settings(self.recipe),
                reinit="create_new",
                settings=wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True),
            )
        return str(self._open.id)

    def send(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Log each record at its step."""
        for record in records:
            self._open.log(scalars(record), step=record["step"])

    def end(self, is_finished: bool) -> None:
        """Write what is pending."""
        if self._open is not None:
            self._open.finish(exit_code=0 if is_finished else 1)
            self._open = None


# -- MLflow. Without MLFLOW_TRACKING_URI the run is written to `mlflow.db` in the run folder, an SQLite database -----


MOST_METRICS = 1000  # that MLflow accepts in a request


class MlflowLogger(Tracker):
    """A run of MLflow."""

    name: ClassVar[str] = "mlflow"
    _client: Any = None

    def begin(self, run: str | None) -> str:
        """Open the run once; a resumed training continues the same one."""
        if self._client is None:
            from mlflow import MlflowClient

            place = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(self.folder / 'mlflow.db').resolve()}"
            self._client = MlflowClient(tracking_uri=place)
            if run is None:
                name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "maskwright")
                found = self._client.get_experiment_by_name(name)
                experiment = self._client.create_experiment(name) if found is None else found.experiment_id
                run = self._client.create_run(experiment, run_name=str(self.folder)).info.run_id
                for key, value in settings(self.recipe).items():
                    self._client.log_param(run, key, value)
            else:
                self._client.update_run(run, status="RUNNING")
            self._id = run
        return str(self._id)

    def send(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Log the finite values of each record at its step."""
        from mlflow.entities import Metric

        metrics = [
            Metric(name, value, round(record.get("time", 0.0) * 1000), record["step"])
            for record in records
            for name, value in finite(scalars(record)).items()
        ]
        for start in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(self._id, metrics=metrics[start : start + MOST_METRICS])

    def end(self, is_finished: bool) -> None:
        """Set the run's status."""
        if self._client is not None:
            self._client.set_terminated(self._id, "FINISHED" if is_finished else "KILLED")
            self._client = None
