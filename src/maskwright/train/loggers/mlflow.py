"""MLflow. Without MLFLOW_TRACKING_URI the run is written to `mlflow.db` in the run folder, an SQLite database."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .base import finite, scalars, settings
from .tracker import Tracker

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
