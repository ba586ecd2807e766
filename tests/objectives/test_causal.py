"""Causal language modeling: the predicted tokens and the loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from contracts.common import SMALL
from contracts.objectives import CLS, FIRST_WORD, SEP, Documents, make, model_for
from maskwright.core.randomness import generator
from maskwright.models import pretraining_heads as vocabulary_loss
from maskwright.objectives.segments import sentence_bounds


def test_every_ordinary_token_is_predicted_at_the_token_before_it():
    _, batch = make("clm")
    ids, where = batch.input_ids, batch.labels["clm_positions"]
    assert torch.equal(ids[where + 1], batch.labels["clm"])
    words = ids[where + 1] >= FIRST_WORD
    assert torch.equal(torch.arange(len(ids))[ids >= FIRST_WORD] - 1, where[words])
    assert CLS not in batch.labels["clm"].tolist()


def test_the_end_of_a_text_is_predicted_and_truncation_is_not():
    _, batch = make("clm")
    documents = Documents().tokens
    guessed = set((batch.labels["clm_positions"] + 1).tolist())
    ends = 0
    for ids, last in zip(batch.input_ids.split(batch.lengths), batch.last_tokens.tolist(), strict=True):
        assert (ids[0], ids[-1]) == (CLS, SEP)
        words = ids[1:-1].numpy()
        is_end = any(np.array_equal(document[-len(words) :], words) for document in documents)
        assert (last in guessed) == is_end
        ends += is_end
    assert ends == len(documents) < len(batch)


def test_without_a_frame_one_token_stands_between_texts_and_nothing_where_an_example_was_cut():
    objective, _ = make("clm")
    objective.recipe = replace(objective.recipe, cls_id=SEP, frames=False)
    documents = Documents()
    bounds = {number: sentence_bounds(lengths) for number, lengths in enumerate(documents.sentences)}
    batch = objective.batch(documents, objective.plan(bounds, generator(0, "examples")), generator(0, "batch"))
    written = {}
    for ids in batch.input_ids.split(batch.lengths):
        words = tuple(one for one in ids.tolist() if one != SEP)
        written[words] = (int(ids[0]) == SEP, int(ids[-1]) == SEP)
    for document in documents.tokens:
        parts = [words for words in written if _is_inside(words, document)]
        assert sum(written[words][0] for words in parts) == sum(written[words][1] for words in parts) == 1
    firsts = set(batch.first_tokens.tolist())
    assert set((batch.labels["clm_positions"] + 1).tolist()) == set(range(batch.num_tokens)) - firsts


def _is_inside(words, document):
    return any(np.array_equal(document[start : start + len(words)], words) for start in range(len(document)))


def test_the_loss_is_the_mean_cross_entropy_of_the_next_token():
    objective, batch = make("clm")
    model = model_for(objective)
    outcome = objective.outcome(model, batch)
    shares = model.mlm_logits(model.encode(batch).hidden).log_softmax(-1)  # [tokens, vocab]
    where, right = batch.labels["clm_positions"], batch.labels["clm"]
    torch.testing.assert_close(outcome.losses["clm"], -shares[where, right].sum())
    scored = ~torch.from_numpy(objective.recipe.masker.is_special)[right]  # the ends of texts are not
    score = outcome.scores["clm"]
    assert 0 < int(score.labels) == int(scored.sum()) < len(right)
    assert int(score.correct) == int((shares[where].argmax(-1) == right)[scored].sum())
    torch.testing.assert_close(score.loss, -shares[where, right][scored].sum())
    assert outcome.counts == {"clm": len(right)}


def test_parts_give_the_loss_and_gradients_of_the_whole(monkeypatch: pytest.MonkeyPatch):
    objective, batch = make("clm")
    found = []
    for most in (1 << 23, 7 * SMALL["vocab_size"]):
        monkeypatch.setitem(vocabulary_loss.MOST_SCORES, "cpu", most)
        model = model_for(objective)
        outcome = objective.outcome(model, batch)
        (outcome.losses["clm"] / outcome.counts["clm"]).backward()
        found.append((outcome, [parameter.grad for parameter in model.parameters()]))
    (whole, gradients), (parts, others) = found
    torch.testing.assert_close(parts.losses["clm"], whole.losses["clm"])
    assert int(parts.scores["clm"].correct) == int(whole.scores["clm"].correct)
    for one, other in zip(gradients, others, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_the_vocabulary_is_scored_where_there_is_a_label_and_nowhere_else(monkeypatch: pytest.MonkeyPatch):
    objective, batch = make("clm")
    model = model_for(objective)
    scored = []
    head = type(model.predictions)
    original = head.loss

    def counted(self, hidden, *others, **options):
        scored.append(len(hidden))
        return original(self, hidden, *others, **options)

    monkeypatch.setattr(head, "loss", counted)
    objective.outcome(model, batch)
    assert scored == [len(batch.labels["clm"])]


def test_the_audit_shows_the_text_with_the_predicted_tokens():
    objective, batch = make("clm")
    sequence = objective.shown(model_for(objective), batch, str)[0]
    fates = [token.fate for token in sequence.tokens]
    assert fates[:-1] == ["", *["next"] * (len(fates) - 2)]
    assert all(token.shown == token.original for token in sequence.tokens)
    assert np.array_equal([int(token.shown) for token in sequence.tokens], batch.input_ids[: len(fates)])
