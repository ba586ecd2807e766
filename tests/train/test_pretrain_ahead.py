"""A job with prefetching gives the same batches, and a checkpoint records the end of the used ones."""

from __future__ import annotations

import numpy as np
import torch

from contracts.objectives import make, model_for
from maskwright.train.pretraining.job import PretrainJob
from maskwright.train.steps import Prefetcher


class Shards:
    """Documents of random tokens in sentences of five."""

    tokens = np.random.default_rng(0).integers(5, 30, size=(12, 40))

    def document_tokens(self, document: int) -> np.ndarray:
        return self.tokens[document].astype(np.int64)

    def sentence_lengths_of(self, document: int) -> np.ndarray:
        return np.full(8, 5)

    def document_lengths(self) -> np.ndarray:
        return np.full(12, 40)


def job(ahead: bool) -> PretrainJob:
    objective, _ = make("mlm")
    made = PretrainJob(
        model_for(objective),
        objective,
        Shards(),  # type: ignore[arg-type]
        np.arange(12),
        tokenizer=None,
        sequences=3,
        accumulation=2,
        seed=4,
        device=torch.device("cpu"),
    )
    made._next = Prefetcher(made._make, ahead)
    return made


def test_batches_and_positions_are_those_of_a_job_that_makes_them_on_demand():
    plain, early = job(False), job(True)
    for step in range(7):
        for one, other in zip(plain.micro_batches(step), early.micro_batches(step), strict=True):
            assert torch.equal(one.input_ids, other.input_ids) and torch.equal(one.cu_seqlens, other.cu_seqlens)
            assert torch.equal(one.labels["mlm"], other.labels["mlm"])
        assert plain.state() == early.state()


def test_a_restored_job_goes_on_where_the_checkpoint_was():
    first = job(True)
    for step in range(3):
        first.micro_batches(step)
    state = first.state()
    wanted = [first.micro_batches(step)[1].input_ids for step in (3, 4)]
    second = job(True)
    second.micro_batches(0)
    second.restore(state)
    for step, ids in zip((3, 4), wanted, strict=True):
        assert torch.equal(second.micro_batches(step)[1].input_ids, ids)
