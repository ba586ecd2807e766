"""What a run tells: logs for tracking programs, TensorBoard, and callbacks, each step once."""

from __future__ import annotations

import json
import random
import struct
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import maskwright as mw
from maskwright.core import registry
from maskwright.core.errors import ConfigError, MissingExtraError, TrainingError
from maskwright.train import loggers as tracker
from maskwright.train.callbacks import Callbacks, EvaluationFacts
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.loggers import NAME, EventFile, Tracker, scalars
from maskwright.train.run import open_run
from train.event_reading import events
from train.runs import finetuning, pretraining, stopped

LOSSES = {step: 1.0 / step for step in range(1, 6)}


class Program(Tracker):
    """A tracking program in memory. runs: what it has, by run; is_down: it fails."""

    name = "memory"
    runs: dict[str, list[int]] = {}  # noqa: RUF012  # of the program, not of one logger
    ended: list[bool] = []  # noqa: RUF012
    is_down = False

    def check(self):
        pass

    def begin(self, run):
        run = run or f"run {len(self.runs) + 1}"
        self.open = self.runs.setdefault(run, [])
        return run

    def send(self, records):
        if self.is_down:
            raise OSError("no network")
        self.open += [record["step"] for record in records]

    def end(self, is_finished):
        self.ended.append(is_finished)


@pytest.fixture
def program(monkeypatch):
    class Fresh(Program):
        runs: dict[str, list[int]] = {}  # noqa: RUF012
        ended: list[bool] = []  # noqa: RUF012

    monkeypatch.setitem(registry.TABLE["logger"], "memory", "nowhere:Nothing")
    monkeypatch.setattr(
        registry, "load", lambda place, load=registry.load: Fresh if "nowhere" in place else load(place)
    )
    return Fresh


def train_twice(folder, name):
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


def test_a_resumed_run_goes_on_in_the_same_run_of_the_program_and_repeats_nothing(tmp_path, program):
    train_twice(tmp_path / "run", "memory")
    assert program.runs == {"run 1": [1, 2, 3, 4, 5]} and program.ended == [False, True]


def test_a_logger_named_later_gets_the_earlier_records(tmp_path, program):
    with open_run(tmp_path / "run", {"lr": 1}) as run:
        run.log({"step": 1, "loss": 1.0})
        run.part("seed-0").path.mkdir()
        run.part("seed-0").log({"step": 1, "loss": 2.0})
    with open_run(tmp_path / "run", {"lr": 1, "log": ["memory"]}) as run:
        run.rewind(1)
        run.log({"step": 2, "loss": 0.5})
    assert program.runs == {"run 1": [1, 2], "run 2": [1]}


def test_a_failing_program_is_reported_once_and_gets_the_rest_later(tmp_path, program, capsys):
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
def test_a_missing_package_is_named_before_anything_is_written(tmp_path, name, monkeypatch):
    monkeypatch.setattr(tracker, "find_spec", lambda name: None)
    with (
        pytest.raises(MissingExtraError, match=rf"^--log {name} needs .* pip install 'maskwright\[{name}\]'\.$"),
        open_run(tmp_path / "run", {"log": [name]}),
    ):
        pass
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("config", [pretraining, finetuning])
def test_an_unknown_logger_is_an_error_that_names_the_known_ones(tmp_path, config):
    with pytest.raises(ConfigError, match=r"Setting 'log': Unknown logger 'wanb'.* Did you mean 'wandb'\?"):
        config(tmp_path, log=("wanb",))


def test_mlflow_writes_a_run_into_the_folder(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="the extra 'mlflow' is not installed")

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    train_twice(tmp_path / "run", "mlflow")
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'run' / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name("maskwright").experiment_id])
    history = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(one.step, one.value) for one in history] == list(LOSSES.items())
    assert run.info.status == "FINISHED" and run.data.params["lr"] == "0.001"
    assert "eval/accuracy" not in run.data.metrics


# -- TensorBoard events ----------------------------------------------------------------------------------------------


def logged(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    narrow = lambda value: struct.unpack("<f", struct.pack("<f", value))[0]  # noqa: E731
    return [(line["step"], tag, narrow(value)) for line in lines for tag, value in scalars(line).items()]


@given(st.integers(0, 2**40), st.floats(width=32, allow_nan=False))
def test_steps_and_numbers_come_back(tmp_path_factory, step, value):
    file = EventFile(tmp_path_factory.mktemp("events"))
    file.rewrite([{"step": step, "time": 1.7e9, "loss": value}])
    assert events(file.path) == [(step, "train/loss", value)]


def test_numbers_are_grouped_and_what_is_no_curve_is_left_out():
    record = {
        "step": 3,
        "time": 1.0,
        "tokens": 9,
        "seconds": 2.0,
        "loss": 1.5,
        "tokens_per_second": 4.0,
        "eval_loss": 2,
    }
    assert scalars(record) == {"train/loss": 1.5, "speed/tokens_per_second": 4.0, "eval/loss": 2.0}


def test_every_seed_of_a_run_has_the_events_of_its_log(tmp_path):
    finetune(finetuning(tmp_path, epochs=1, seeds=2, tensorboard=True, log_every=1))
    for number in range(2):
        folder = tmp_path / "tuned" / f"seed-{number}"
        found = events(folder / NAME)
        assert found == logged(folder) and found
        assert {tag for _, tag, _ in found} >= {"train/loss", "train/lr", "eval/accuracy", "speed/tokens_per_second"}


def test_a_run_that_goes_on_repeats_no_step(tmp_path, monkeypatch):
    """It is interrupted two steps after its last checkpoint: the log and the events of these are written again."""
    config = finetuning(tmp_path, epochs=3, tensorboard=True, log_every=1, checkpoint_every=4)
    stopped(finetune, config, monkeypatch, 6)
    folder = tmp_path / "tuned" / "seed-0"
    assert max(step for step, _, _ in events(folder / NAME)) == 6
    finetune(config)
    found = events(folder / NAME)
    assert [step for step, tag, _ in found if tag == "train/loss"] == list(range(1, 13))
    assert found == logged(folder)


def test_a_truncated_end_is_repaired_when_the_run_resumes(tmp_path):
    with open_run(tmp_path / "run", {"tensorboard": True}) as run:
        run.rewind(0)
        for step in (1, 2, 3):
            run.log({"step": step, "loss": 1.0 / step})
        run.loggers[0].path.write_bytes(run.loggers[0].path.read_bytes()[:-5])
    with open_run(tmp_path / "run", {"tensorboard": True}) as run:
        run.rewind(2)
        run.log({"step": 3, "loss": 0.25})
        assert [(step, value) for step, _, value in events(run.loggers[0].path)] == [(1, 1.0), (2, 0.5), (3, 0.25)]


# -- Callbacks get every step, evaluation and checkpoint; a run with them has the weights of a run withou ------------


class Recorder(mw.Callback):
    def __init__(self):
        self.calls: list[tuple[str, Any]] = []

    def on_step(self, facts):
        self.calls.append(("step", facts))

    def on_evaluate(self, facts):
        self.calls.append(("evaluate", facts))

    def on_checkpoint(self, facts):
        assert (facts.checkpoint / "manifest.json").is_file()
        self.calls.append(("checkpoint", facts))

    def of(self, kind):
        return [facts for name, facts in self.calls if name == kind]


class Interfering(mw.Callback):
    """Draws random numbers, seeds the generators and changes torch's modes."""

    def on_step(self, facts):
        torch.manual_seed(facts.step)
        random.seed(facts.step)
        np.random.seed(facts.step)
        torch.set_num_threads(torch.get_num_threads() + 1)
        torch.set_default_dtype(torch.float64)
        torch.use_deterministic_algorithms(False)
        torch.set_grad_enabled(False)

    on_evaluate = on_checkpoint = on_step


class StopsAt(mw.Callback):
    def __init__(self, step):
        self.step = step

    def on_step(self, facts):
        if facts.step == self.step:
            raise LookupError("enough")


def weights(folder):
    return (folder / "model" / "model.safetensors").read_bytes()


def test_every_step_evaluation_and_checkpoint_is_told(tmp_path):
    seen = Recorder()
    config = pretraining(tmp_path, steps=5, log_every=2, evaluate_every=3)
    mw.pretrain(config, callbacks=[seen])
    assert [facts.step for facts in seen.of("step")] == [1, 2, 3, 4, 5]
    assert [bool(facts.record) for facts in seen.of("step")] == [False, True, False, True, True]
    assert [facts.step for facts in seen.of("evaluate")] == [3, 5]
    assert [facts.checkpoint.name for facts in seen.of("checkpoint")] == ["step-2", "step-4", "step-5"]
    one = seen.of("step")[1]
    assert one.record["loss"] > 0 and one.lr == one.record["lr"] and one.grad_norm == one.record["grad_norm"]
    assert one.steps == 5 and one.folder == config.output and one.tokens > 0
    assert seen.of("evaluate")[0].scores["mlm_loss"] > 0
    with pytest.raises(FrozenInstanceError):
        one.step = 3
    with pytest.raises(TypeError):
        one.record["loss"] = 0.0
    mw.pretrain(config, callbacks=[seen])
    assert len(seen.of("step")) == 5, "a finished run is not trained again"


def test_a_callback_that_draws_and_seeds_leaves_the_run_and_the_process_as_they_are(tmp_path):
    before = (torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled(), random.getstate())
    mw.pretrain(pretraining(tmp_path, output=tmp_path / "plain"))
    mw.pretrain(pretraining(tmp_path), callbacks=[Interfering()])
    assert weights(tmp_path / "run") == weights(tmp_path / "plain")
    after = (torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled(), random.getstate())
    assert after == before


def test_an_exception_ends_the_run_and_the_same_call_resumes_it_exactly(tmp_path):
    mw.pretrain(pretraining(tmp_path, output=tmp_path / "plain"))
    seen = Recorder()
    with pytest.raises(LookupError, match="enough"):
        mw.pretrain(pretraining(tmp_path), callbacks=[seen, StopsAt(5)])
    mw.pretrain(pretraining(tmp_path), callbacks=[seen])
    assert [facts.step for facts in seen.of("step")] == [1, 2, 3, 4, 5, 5, 6], "step 5 is repeated from checkpoint 4"
    assert weights(tmp_path / "run") == weights(tmp_path / "plain")


def training_model():
    """The network that is training: no fact leads to it, but the frames of Python do."""
    frame = sys._getframe()
    while "job" not in frame.f_locals:
        frame = frame.f_back  # type: ignore[assignment]  # the loop is among the callers
    return frame.f_locals["job"].model


def test_changed_weights_end_the_training_before_they_are_saved(tmp_path):
    class Changes(mw.Callback):
        def on_step(self, facts):
            if facts.step == 4:
                next(training_model().parameters()).data[0, 0] += 1.0

    with pytest.raises(TrainingError, match=r"Changes\.on_step changed .*\.weight after step 4"):
        mw.pretrain(pretraining(tmp_path), callbacks=[Changes()])
    assert [path.name for path in (tmp_path / "run/checkpoints").iterdir()] == ["step-2"]
    mw.pretrain(pretraining(tmp_path))
    mw.pretrain(pretraining(tmp_path, output=tmp_path / "plain"))
    assert weights(tmp_path / "run") == weights(tmp_path / "plain")


@torch.no_grad()
def swap(model):
    model[0].weight[[0, 1], 0] = model[0].weight[[1, 0], 0]


CHANGES: dict[str, Callable[[nn.Module], Any]] = {
    "in place": swap,
    "through data": lambda model: model[0].weight.data.mul_(1.5),
    "another tensor": lambda model: setattr(model[0].weight, "data", model[0].weight.data.clone()),
    "a buffer": lambda model: model[1].running_mean.add_(1.0),
    "frozen": lambda model: model[0].weight.requires_grad_(False),
    "mode": lambda model: model[1].eval(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_way_to_change_a_network_is_detected(change):
    class Changes:
        def on_evaluate(self, facts):
            CHANGES[change](model)

    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    with pytest.raises(TrainingError, match=r"Changes\.on_evaluate changed"):
        Callbacks([Changes()]).call("on_evaluate", model, EvaluationFacts(Path("run"), 1, 2, {}))


def test_what_is_no_callback_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match="str is not a callback: it needs one of on_step, on_evaluate, on_checkpoint"):
        mw.pretrain(pretraining(tmp_path), callbacks=["loss"])
    assert not (tmp_path / "run").exists()
