"""Denoising: source and target together are the text; the loss covers every target token."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contracts.objectives import CLS, MASK, SEP, make, model_for
from maskwright.core.errors import ConfigError
from maskwright.models.config import ModelConfig
from maskwright.objectives.denoising import Denoising, hide_spans, random_partition, restore_spans, spans_of

MARK = 3
texts = st.lists(st.integers(5, 99), min_size=1, max_size=60)


@given(texts, st.floats(0.01, 0.9), st.integers(0, 999))
def test_what_is_read_and_what_is_written_make_the_text_again(tokens, rate, seed):
    whole = np.array(tokens)
    seen, written = hide_spans(whole, MARK, rate, np.random.default_rng(seed))
    assert restore_spans(seen, written, MARK).tolist() == tokens
    marks = int((seen == MARK).sum())
    assert marks == int((written == MARK).sum()) >= 1
    assert not np.any((seen[1:] == MARK) & (seen[:-1] == MARK)), "spans touch"
    assert all(len(span) for span in spans_of(written, MARK))
    assert len(tokens) == 1 or marks < len(seen), "something is left to read"


def test_the_share_and_the_length_of_spans_are_as_published():
    rng, tokens = np.random.default_rng(0), np.arange(5, 133)
    drawn = [hide_spans(tokens, MARK, 0.15, rng) for _ in range(400)]
    hidden = [len(written) - int((written == MARK).sum()) for _, written in drawn]
    assert np.mean(hidden) / len(tokens) == pytest.approx(0.15, abs=0.005)
    lengths = [len(span) for _, written in drawn for span in spans_of(written, MARK)]
    assert np.mean(lengths) == pytest.approx(3.0, abs=0.3)
    first = np.mean([seen[0] == MARK for seen, _ in drawn])
    last = np.mean([seen[-1] == MARK for seen, _ in drawn])
    assert 0 < first < 0.3 and 0 < last < 0.3, "both ends may be hidden"


def test_every_way_to_part_a_number_is_as_likely():
    rng = np.random.default_rng(0)
    found = [tuple(random_partition(5, 3, rng)) for _ in range(3000)]
    ways = {way: found.count(way) for way in set(found)}
    assert len(ways) == 6 and all(sum(way) == 5 and min(way) >= 1 for way in ways)
    assert all(count == pytest.approx(500, rel=0.25) for count in ways.values())


def test_the_loss_is_that_of_every_token_written_given_those_before():
    objective, batch = make("denoise")
    model = model_for(objective)
    with torch.no_grad():
        outcome = objective.outcome(model, batch)
        shares = model.mlm_logits(model.decode(batch.target, model.encode(batch).hidden, batch).hidden).log_softmax(-1)
    right = batch.labels["denoise"]
    torch.testing.assert_close(outcome.losses["denoise"], -shares[torch.arange(len(right)), right].sum())
    hidden = (right != MASK) & (right != SEP)
    score = outcome.scores["denoise"]
    assert int(score.labels) == int(hidden.sum()) < len(right)
    assert int(score.correct) == int((shares.argmax(-1) == right)[hidden].sum())
    for ids, target in zip(
        batch.input_ids.split(batch.lengths), batch.target.input_ids.split(batch.target.lengths), strict=True
    ):
        assert (ids[0], ids[-1], target[0], target[1]) == (CLS, SEP, CLS, MASK)


def test_a_person_sees_what_was_hidden_at_its_mark():
    objective, batch = make("denoise")
    shown = objective.shown(model_for(objective), batch, str)
    written = batch.labels["denoise"].split(batch.target.lengths)
    for one, target in zip(shown, written, strict=True):
        hidden = [token.original for token in one.tokens if token.fate == "masked"]
        assert hidden == [" ".join(map(str, span)) for span in spans_of(target.numpy()[:-1], MASK)]


def test_a_network_without_a_decoder_is_refused():
    with pytest.raises(ConfigError, match="encoder-decoder"):
        Denoising.make(ModelConfig(vocab_size=20, hidden_size=16, num_attention_heads=2, num_hidden_layers=1))
