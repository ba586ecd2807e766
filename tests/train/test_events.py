"""TensorBoard events: the log once more, each step once, readable by what others write to that format."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.train.finetuning.finetune import finetune
from maskwright.train.loggers import NAME, EventFile, scalars
from maskwright.train.run import open_run
from train.event_reading import events
from train.runs import finetuning, stopped


def logged(folder: Path) -> list[tuple[int, str, float]]:
    """What the log says, as events say it."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    narrow = lambda value: struct.unpack("<f", struct.pack("<f", value))[0]  # noqa: E731
    return [(line["step"], tag, narrow(value)) for line in lines for tag, value in scalars(line).items()]


@given(st.integers(0, 2**40), st.floats(width=32, allow_nan=False))
def test_steps_and_numbers_come_back(tmp_path_factory: pytest.TempPathFactory, step: int, value: float):
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


def test_every_seed_of_a_run_has_the_events_of_its_log(tmp_path: Path):
    finetune(finetuning(tmp_path, epochs=1, seeds=2, tensorboard=True, log_every=1))
    for number in range(2):
        folder = tmp_path / "tuned" / f"seed-{number}"
        found = events(folder / NAME)
        assert found == logged(folder) and found
        assert {tag for _, tag, _ in found} >= {"train/loss", "train/lr", "eval/accuracy", "speed/tokens_per_second"}


def test_a_run_that_goes_on_repeats_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It is interrupted two steps after its last checkpoint: the log and the events of these are written again."""
    config = finetuning(tmp_path, epochs=3, tensorboard=True, log_every=1, checkpoint_every=4)
    stopped(finetune, config, monkeypatch, 6)
    folder = tmp_path / "tuned" / "seed-0"
    assert max(step for step, _, _ in events(folder / NAME)) == 6
    finetune(config)
    found = events(folder / NAME)
    assert [step for step, tag, _ in found if tag == "train/loss"] == list(range(1, 13))
    assert found == logged(folder)


def test_a_truncated_end_is_repaired_when_the_run_resumes(tmp_path: Path):
    with open_run(tmp_path / "run", {"tensorboard": True}) as run:
        run.rewind(0)
        for step in (1, 2, 3):
            run.log({"step": step, "loss": 1.0 / step})
        run.loggers[0].path.write_bytes(run.loggers[0].path.read_bytes()[:-5])
    with open_run(tmp_path / "run", {"tensorboard": True}) as run:
        run.rewind(2)
        run.log({"step": 3, "loss": 0.25})
        assert [(step, value) for step, _, value in events(run.loggers[0].path)] == [(1, 1.0), (2, 0.5), (3, 0.25)]
