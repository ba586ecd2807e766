"""Logs for tracking programs: each record once, also after a rollback; a failure there does not end the training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from maskwright.core import registry
from maskwright.core.errors import ConfigError, MissingExtraError
from maskwright.train import loggers as tracker
from maskwright.train.loggers import Tracker
from maskwright.train.run import open_run
from train.runs import finetuning, pretraining

LOSSES = {step: 1.0 / step for step in range(1, 6)}


class Program(Tracker):
    """A tracking program in memory. runs: what it has, by run; is_down: it fails."""

    name = "memory"
    runs: dict[str, list[int]] = {}  # noqa: RUF012  # of the program, not of one logger
    ended: list[bool] = []  # noqa: RUF012
    is_down = False

    def check(self) -> None:
        pass

    def begin(self, run: str | None) -> str:
        run = run or f"run {len(self.runs) + 1}"
        self.open = self.runs.setdefault(run, [])
        return run

    def send(self, records: Any) -> None:
        if self.is_down:
            raise OSError("no network")
        self.open += [record["step"] for record in records]

    def end(self, is_finished: bool) -> None:
        self.ended.append(is_finished)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> type[Program]:
    class Fresh(Program):
        runs: dict[str, list[int]] = {}  # noqa: RUF012
        ended: list[bool] = []  # noqa: RUF012

    monkeypatch.setitem(registry.TABLE["logger"], "memory", "nowhere:Nothing")
    monkeypatch.setattr(
        registry, "load", lambda place, load=registry.load: Fresh if "nowhere" in place else load(place)
    )
    return Fresh


def train_twice(folder: Path, name: str) -> None:
    """Three steps; then from a checkpoint at step 1 to the end."""
    with open_run(folder, {"log": [name], "lr": 1e-3}) as run:
        run.rewind(0)
        for step in (1, 2, 3):
            run.log({"step": step, "loss": LOSSES[step]})
    with open_run(folder, {"log": [name], "lr": 1e-3}) as run:
        run.rewind(1)
        for step in (2, 3, 4, 5):
            run.log({"step": step, "loss": LOSSES[step], "eval_accuracy": float("nan")})
        run.finish({})


def test_a_resumed_run_goes_on_in_the_same_run_of_the_program_and_repeats_nothing(tmp_path: Path, program: Any):
    train_twice(tmp_path / "run", "memory")
    assert program.runs == {"run 1": [1, 2, 3, 4, 5]} and program.ended == [False, True]


def test_a_logger_named_later_gets_the_earlier_records(tmp_path: Path, program: Any):
    with open_run(tmp_path / "run", {"lr": 1}) as run:
        run.log({"step": 1, "loss": 1.0})
        run.part("seed-0").path.mkdir()
        run.part("seed-0").log({"step": 1, "loss": 2.0})
    with open_run(tmp_path / "run", {"lr": 1, "log": ["memory"]}) as run:
        run.rewind(1)
        run.log({"step": 2, "loss": 0.5})
    assert program.runs == {"run 1": [1, 2], "run 2": [1]}


def test_a_failing_program_is_reported_once_and_gets_the_rest_later(tmp_path: Path, program: Any, capsys: Any):
    program.is_down = True
    with open_run(tmp_path / "run", {"log": ["memory"]}) as run:
        run.rewind(0)
        for step in (1, 2):
            run.log({"step": step})
    assert capsys.readouterr().err.count("memory failed (no network): training continues without it") == 1
    program.is_down = False
    with open_run(tmp_path / "run", {"log": ["memory"]}) as run:
        run.rewind(2)
        run.log({"step": 3})
        assert [record["step"] for record in run.records()] == [1, 2, 3]
    assert [steps for steps in program.runs.values() if steps] == [[1, 2, 3]]


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_missing_package_is_named_before_anything_is_written(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tracker, "find_spec", lambda name: None)
    with (
        pytest.raises(MissingExtraError, match=rf"^--log {name} needs .* pip install 'maskwright\[{name}\]'\.$"),
        open_run(tmp_path / "run", {"log": [name]}),
    ):
        pass
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("config", [pretraining, finetuning])
def test_an_unknown_logger_is_an_error_that_names_the_known_ones(tmp_path: Path, config: Callable[..., Any]):
    with pytest.raises(ConfigError, match=r"Setting 'log': Unknown logger 'wanb'.* Did you mean 'wandb'\?"):
        config(tmp_path, log=("wanb",))


def test_mlflow_writes_a_run_into_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mlflow = pytest.importorskip("mlflow", reason="the extra 'mlflow' is not installed")

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    train_twice(tmp_path / "run", "mlflow")
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'run' / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name("maskwright").experiment_id])
    history = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(one.step, one.value) for one in history] == list(LOSSES.items())
    assert run.info.status == "FINISHED" and run.data.params["lr"] == "0.001"
    assert "eval/accuracy" not in run.data.metrics
