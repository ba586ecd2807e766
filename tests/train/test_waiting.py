"""A GPU has work while the host reads: updates are checked a step later, results are read after the next launch."""

import math
import signal

import numpy as np
import pytest
import torch
from torch import Tensor

from maskwright.core.errors import TrainingError
from maskwright.data.batch import Batch
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.tasks.examples import Examples, Forward, compute
from maskwright.train import loop
from maskwright.train.loop import LoopSettings, train
from maskwright.train.optimizer import adamw, skip_unless_finite
from train.runs import pretraining

LOGGED = 10


class Job:
    """A network of one matrix; the step `broken` (from 0) has a loss that is not a number."""

    def __init__(self, broken=None):
        torch.manual_seed(0)
        self.model, self.broken, self.step = torch.nn.Linear(4, 4), broken, -1

    def micro_batches(self, step):
        self.step = step
        return [Batch.from_sequences([[5, 6, 7]])]

    def counts(self, batch):
        return {"words": 3}

    def outcome(self, batch):
        loss = self.model(torch.ones(3, 4)).square().sum()
        return loop.LossSums({"words": loss * (math.nan if self.step == self.broken else 1.0)}, {"words": 3})

    def evaluate(self, step):
        return {}

    def should_stop(self):
        return False

    def state(self):
        return {}

    def restore(self, state):
        """Nothing."""


def settings(steps=LOGGED, **changes):
    every = {"log_every": LOGGED, "checkpoint_every": 10**9, "evaluate_every": 10**9}
    return LoopSettings(steps, 1e-2, 0.0, "constant", 0.01, 1.0, 0, **{**every, **changes})


@pytest.fixture
def events(monkeypatch):
    """What happens, in order: "launched" for an update, "read" and its number for a norm that is read."""
    found, made = [], []

    def later(values: Tensor):
        number = len(made)
        made.append(number)
        found.append(("launched", number))

        def wait():
            found.append(("read", number))
            return values

        return wait

    monkeypatch.setattr(loop, "to_cpu_later", later)
    monkeypatch.setattr(loop, "is_queued", lambda norm: True)
    return found


def test_a_norm_is_read_after_the_next_update_is_launched(events):
    train(Job(), settings())
    read = [number for kind, number in events if kind == "read"]
    assert set(read) == set(range(LOGGED))
    for number in range(LOGGED - 1):
        assert events.index(("launched", number + 1)) < events.index(("read", number))


def test_where_numbers_are_needed_they_are_read_at_once(events):
    train(Job(), settings(log_every=1))
    for number in range(LOGGED - 1):
        assert events.index(("read", number)) < events.index(("launched", number + 1))


@pytest.mark.parametrize("is_queued", [False, True])
@pytest.mark.parametrize("broken", [0, 3, LOGGED - 2, LOGGED - 1])
def test_the_error_names_the_step_whose_gradient_changes_no_weight(broken, is_queued, monkeypatch):
    monkeypatch.setattr(loop, "is_queued", lambda norm: is_queued)
    job, fine = Job(broken), Job()
    with pytest.raises(TrainingError, match=f"not finite at step {broken + 1}:"):
        train(job, settings())
    assert job.step == broken + (is_queued and broken < LOGGED - 1)  # one step later on a GPU
    assert all(bool(one.isfinite().all()) for one in job.model.parameters())
    if job.step == broken:
        train(fine, settings(broken, log_every=1))
        for one, other in zip(job.model.parameters(), fine.model.parameters(), strict=True):
            assert torch.equal(one, other)


def test_a_signal_while_a_norm_is_awaited_saves_no_step_that_failed(tmp_path, monkeypatch):
    """The signal comes while the host waits for the step before the one that fails."""
    from maskwright.train.pretraining.pretrain import pretrain

    calls, clip, later = [], torch.nn.utils.clip_grad_norm_, loop.to_cpu_later

    def poison(parameters, norm):
        calls.append(norm)
        return torch.tensor(math.nan) if len(calls) == 3 else clip(parameters, norm)

    def signalled(values):
        number, wait = len(calls), later(values)

        def waited():
            if number == 2 and len(calls) == 3:
                signal.raise_signal(signal.SIGTERM)
            return wait()

        return waited

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", poison)
    monkeypatch.setattr(loop, "is_queued", lambda norm: True)
    monkeypatch.setattr(loop, "to_cpu_later", signalled)
    with pytest.raises(TrainingError, match="not finite at step 3"):
        pretrain(pretraining(tmp_path, log_every=6, checkpoint_every=6))
    assert not list((tmp_path / "run").glob("checkpoints/*"))


def test_an_update_that_is_skipped_changes_neither_weights_nor_moments():
    model = torch.nn.Linear(3, 2)
    optimizer = adamw(model, 1e-2, 0.1)

    def step(factor):
        (model(torch.ones(1, 3)).sum() * factor).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        assert skip_unless_finite(optimizer, norm)
        optimizer.step()
        optimizer.zero_grad()
        state = [value.clone() for own in optimizer.state.values() for value in own.values()]
        return [one.detach().clone() for one in model.parameters()] + state

    before, skipped = step(1.0), step(math.inf)
    assert all(torch.equal(one, other) for one, other in zip(before, skipped, strict=True))
    assert not torch.equal(step(1.0)[0], before[0])


def test_an_optimizer_that_cannot_skip_is_checked_at_once():
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([parameter], lr=1e-3, foreach=True)
    assert not skip_unless_finite(optimizer, torch.tensor(1.0))


def test_a_bad_step_between_checkpoints_is_not_saved(tmp_path, monkeypatch):
    from maskwright.train.pretraining.pretrain import pretrain

    calls, clip = [], torch.nn.utils.clip_grad_norm_

    def poison(parameters, norm):
        calls.append(norm)
        return torch.tensor(math.nan) if len(calls) == 3 else clip(parameters, norm)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", poison)
    monkeypatch.setattr(loop, "is_queued", lambda norm: True)
    with pytest.raises(TrainingError, match="not finite at step 3"):
        pretrain(pretraining(tmp_path, log_every=6))
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-2"]


def test_a_pack_is_launched_before_the_results_of_the_one_before_it_are_read():
    events: list[str] = []

    class Lengths(Forward):
        def launch(self, batch):
            number = len([event for event in events if event.startswith("launched")])
            events.append(f"launched {number}")
            values = [torch.tensor([length]) for length in batch.lengths]

            def wait():
                events.append(f"read {number}")
                return values

            return wait

    config = ModelConfig(
        vocab_size=20, hidden_size=32, num_hidden_layers=1, num_attention_heads=1, intermediate_size=32
    )
    rows = [np.arange(length) % 20 for length in (3, 9, 1, 7, 8, 2)]
    found = compute(Lengths(build(config)), Examples(rows), batch_tokens=10)
    assert [int(one) for one in found] == [3, 9, 1, 7, 8, 2]
    assert events[:3] == ["launched 0", "launched 1", "read 0"] and events[-1] == f"read {len(events) // 2 - 1}"
