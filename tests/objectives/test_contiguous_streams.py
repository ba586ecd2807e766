"""Contiguous streams: every token is predicted once per epoch, segments are consecutive, positions are restored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contracts.objectives import CLS, SEP, Documents
from maskwright.core.errors import InputError
from maskwright.objectives.base import Recipe
from maskwright.objectives.causal import (
    ContiguousStreams,
    StatefulCausalLM,
    StatefulLanguageModel,
    predicted_tokens,
)
from maskwright.objectives.masked import special_tokens
from models.recurrent_models import model


class Shards(Documents):
    """The documents, with their lengths."""

    def document_lengths(self) -> np.ndarray:
        """Tokens of each: int64 [documents]."""
        return np.array([len(tokens) for tokens in self.tokens])


def recipe(length: int = 7, **changes) -> Recipe:
    return replace(Recipe(CLS, SEP, special_tokens(range(5), 150), length), **changes)


def streams(length: int = 7, num_streams: int = 3, seed: int | None = 1, accumulation: int = 1, **changes):
    return ContiguousStreams(Shards(), np.arange(8), recipe(length, **changes), num_streams, seed, accumulation)


def whole(frames: bool = True) -> list[int]:
    """The text as one row."""
    return [id for tokens in Shards().tokens for id in [*([CLS] if frames else []), *tokens.tolist(), SEP]]


@given(st.integers(2, 30), st.integers(1, 6), st.integers(0, 3))
def test_an_epoch_is_the_text_in_streams_each_in_order(length: int, num_streams: int, seed: int):
    source, text = streams(length, num_streams, seed), whole()
    parts = [source.take() for _ in range(source.num_segments)]
    assert source.place.epoch == 1 and source.place.stretch == 0
    assert [begins for _, begins in parts] == [True] + [False] * (len(parts) - 1)
    rows = np.concatenate([rows[:, :-1] for rows, _ in parts] + [parts[-1][0][:, -1:]], axis=1)
    assert rows.shape == (source.num_streams, source.stream_tokens)
    for (before, _), (after, _) in zip(parts, parts[1:], strict=False):
        assert np.array_equal(before[:, -1], after[:, 0])  # a segment starts at the end of the previous one
    joined = rows.flatten().tolist()
    twice = text + text
    assert any(twice[start : start + len(joined)] == joined for start in range(len(text)))


def test_a_place_comes_back_exactly():
    source, again = streams(), streams()
    for _ in range(source.num_segments + 2):
        source.take()
    again.restore(source.state())
    for _ in range(source.num_segments):
        (rows, begins), (others, also) = source.take(), again.take()
        assert np.array_equal(rows, others) and begins == also


def test_a_short_text_has_fewer_streams_and_one_token_has_none():
    assert streams(7, 1000).stream_tokens >= 14

    class One(Shards):
        def __init__(self) -> None:
            self.tokens = [np.array([], dtype=np.int64)]

    with pytest.raises(InputError, match="no token to predict"):
        ContiguousStreams(One(), np.arange(1), recipe(frames=False), 1, 0)


def test_each_token_but_the_beginning_of_a_text_is_predicted_at_the_one_before_it():
    batches = streams(accumulation=2)
    for step in range(5):
        parts = [batches.batch(step, number) for number in range(2)]
        assert torch.cat([part.labels["streams"] for part in parts]).tolist() == [0, 1, 2]
        for part in parts:
            where, right = part.labels["clm_positions"], part.labels["clm"]
            assert CLS not in right.tolist()
            inside = predicted_tokens(part)
            assert torch.equal(part.input_ids[where[inside] + 1], right[inside])
            assert set(where[~inside].tolist()) <= set(part.last_tokens.tolist())
            assert bool(part.labels["goes_on"].all()) == (step > 0)


def stateful(seed: int = 0):
    objective = StatefulCausalLM(recipe())
    return objective, StatefulLanguageModel(model(vocab_size=150, seed=seed)).eval()


def total(objective, carrier, batches) -> float:
    with torch.no_grad():
        return sum(float(objective.outcome(carrier, batch).losses["clm"]) for batch in batches)


def test_the_loss_of_stretches_is_that_of_the_text_read_whole():
    objective, carrier = stateful()
    source = streams(7, 1, None)
    stretches = [source.batch(0, 0) for _ in range(source.num_segments)]
    once = streams(10_000, 1, None).batch(0, 0)
    assert total(objective, carrier, stretches) == pytest.approx(total(objective, carrier, [once]), rel=1e-5)


def test_gradients_end_with_the_stretch_and_scoring_leaves_the_memory_of_training():
    objective, carrier = stateful()
    batches = streams(7, 2)
    first, second = batches.batch(0, 0), batches.batch(1, 0)
    carrier.train()
    objective.outcome(carrier, first)
    kept = carrier.memory.clone()
    assert not carrier.memory.requires_grad
    carrier.eval()
    objective.outcome(carrier, first)
    objective.outcome(carrier, second)
    assert torch.equal(carrier.memory, kept)
    carrier.train()
    objective.outcome(carrier, second).losses["clm"].backward()  # the graph of the first segment is not needed


def test_micro_batches_keep_the_state_of_their_streams():
    objective, _ = stateful()
    found = []
    for accumulation in (1, 3):
        carrier = StatefulLanguageModel(model(vocab_size=150)).train()
        carrier.network.eval()  # without dropout
        batches = streams(7, 3, accumulation=accumulation)
        losses = [
            sum(objective.outcome(carrier, batches.batch(step, n)).losses["clm"].item() for n in range(accumulation))
            for step in range(4)
        ]
        found.append((losses, carrier.memory))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    torch.testing.assert_close(found[0][1], found[1][1])


def test_the_memory_travels_with_the_weights():
    objective, carrier = stateful()
    carrier.train()
    objective.outcome(carrier, streams(7, 2).batch(0, 0))
    other = StatefulLanguageModel(model(vocab_size=150, seed=9))
    other.load_state_dict(carrier.state_dict())
    assert torch.equal(other.memory, carrier.memory)
    fresh = StatefulLanguageModel(model(vocab_size=150))
    fresh.load_state_dict(StatefulLanguageModel(model(vocab_size=150)).state_dict())
    assert fresh.memory is None
