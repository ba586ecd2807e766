"""Callbacks get every step, evaluation and checkpoint; a run with them has the weights of a run without."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import maskwright as mw
from maskwright.core.errors import ConfigError, TrainingError
from maskwright.train.callbacks import Callbacks, EvaluationFacts
from train.runs import pretraining


class Recorder(mw.Callback):
    """Keeps the facts of all calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def on_step(self, facts: Any) -> None:
        self.calls.append(("step", facts))

    def on_evaluate(self, facts: Any) -> None:
        self.calls.append(("evaluate", facts))

    def on_checkpoint(self, facts: Any) -> None:
        assert (facts.checkpoint / "manifest.json").is_file()
        self.calls.append(("checkpoint", facts))

    def of(self, kind: str) -> list[Any]:
        return [facts for name, facts in self.calls if name == kind]


class Interfering(mw.Callback):
    """Draws random numbers, seeds the generators and changes torch's modes."""

    def on_step(self, facts: Any) -> None:
        torch.manual_seed(facts.step)
        random.seed(facts.step)
        np.random.seed(facts.step)
        torch.set_num_threads(torch.get_num_threads() + 1)
        torch.set_default_dtype(torch.float64)
        torch.use_deterministic_algorithms(False)
        torch.set_grad_enabled(False)

    on_evaluate = on_checkpoint = on_step


class StopsAt(mw.Callback):
    """Fails after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, facts: Any) -> None:
        if facts.step == self.step:
            raise LookupError("enough")


def weights(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


def test_every_step_evaluation_and_checkpoint_is_told(tmp_path: Path):
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


def test_a_callback_that_draws_and_seeds_leaves_the_run_and_the_process_as_they_are(tmp_path: Path):
    before = (torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled(), random.getstate())
    mw.pretrain(pretraining(tmp_path, output=tmp_path / "plain"))
    mw.pretrain(pretraining(tmp_path), callbacks=[Interfering()])
    assert weights(tmp_path / "run") == weights(tmp_path / "plain")
    after = (torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled(), random.getstate())
    assert after == before


def test_an_exception_ends_the_run_and_the_same_call_resumes_it_exactly(tmp_path: Path):
    mw.pretrain(pretraining(tmp_path, output=tmp_path / "plain"))
    seen = Recorder()
    with pytest.raises(LookupError, match="enough"):
        mw.pretrain(pretraining(tmp_path), callbacks=[seen, StopsAt(5)])
    mw.pretrain(pretraining(tmp_path), callbacks=[seen])
    assert [facts.step for facts in seen.of("step")] == [1, 2, 3, 4, 5, 5, 6], "step 5 is repeated from checkpoint 4"
    assert weights(tmp_path / "run") == weights(tmp_path / "plain")


def training_model() -> nn.Module:
    """The network that is training: no fact leads to it, but the frames of Python do."""
    frame = sys._getframe()
    while "job" not in frame.f_locals:
        frame = frame.f_back  # type: ignore[assignment]  # the loop is among the callers
    return frame.f_locals["job"].model


def test_changed_weights_end_the_training_before_they_are_saved(tmp_path: Path):
    class Changes(mw.Callback):
        def on_step(self, facts: Any) -> None:
            if facts.step == 4:
                next(training_model().parameters()).data[0, 0] += 1.0

    with pytest.raises(TrainingError, match=r"Changes\.on_step changed .*\.weight after step 4"):
        mw.pretrain(pretraining(tmp_path), callbacks=[Changes()])
    assert [path.name for path in (tmp_path / "run/checkpoints").iterdir()] == ["step-2"]
    mw.pretrain(pretraining(tmp_path))
    mw.pretrain(pretraining(tmp_path, output=tmp_path / "plain"))
    assert weights(tmp_path / "run") == weights(tmp_path / "plain")


@torch.no_grad()
def swap(model: nn.Module) -> None:
    """Swap two weights: their sum stays."""
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
def test_every_way_to_change_a_network_is_detected(change: str):
    class Changes:
        def on_evaluate(self, facts: Any) -> None:
            CHANGES[change](model)

    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    with pytest.raises(TrainingError, match=r"Changes\.on_evaluate changed"):
        Callbacks([Changes()]).call("on_evaluate", model, EvaluationFacts(Path("run"), 1, 2, {}))


def test_what_is_no_callback_is_refused_before_anything_is_written(tmp_path: Path):
    with pytest.raises(ConfigError, match="str is not a callback: it needs one of on_step, on_evaluate, on_checkpoint"):
        mw.pretrain(pretraining(tmp_path), callbacks=["loss"])
    assert not (tmp_path / "run").exists()
