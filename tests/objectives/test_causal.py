"""Causal language modeling: the predicted tokens and the loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from contracts.objectives import CLS, FIRST_WORD, SEP, Documents, make, model_for
from maskwright.core.randomness import generator
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


# -- Forward and backward language models: the targets of each direction, and that neither sees them ------------------


def test_every_word_is_predicted_from_both_sides():
    _, batch = make("bilm")
    ids = batch.input_ids
    for part, step in (("clm", 1), ("backward", -1)):
        where, right = batch.labels[f"{part}_positions"], batch.labels[part]
        assert torch.equal(ids[where + step], right)
        assert set(torch.arange(len(ids))[ids >= FIRST_WORD].tolist()) <= set((where + step).tolist())
        assert CLS not in right.tolist()
    words = int((ids >= FIRST_WORD).sum())
    assert len(batch.labels["backward"]) == words


def test_no_direction_sees_its_target():
    objective, batch = make("bilm")
    model = model_for(objective)
    hidden = model.encode(batch).hidden.detach()
    left, right = hidden.chunk(2, dim=-1)
    place = int(batch.labels["clm_positions"][3]) + 1
    changed = batch.input_ids.clone()
    changed[place] = 7 if changed[place] != 7 else 8
    other = model.encode(type(batch)(changed, batch.cu_seqlens, batch.position_ids)).hidden.detach()
    assert torch.equal(other.chunk(2, -1)[0][place - 1], left[place - 1])
    assert torch.equal(other.chunk(2, -1)[1][place + 1], right[place + 1])
    assert not torch.equal(other[place], hidden[place])


def test_the_losses_are_the_mean_cross_entropies_of_the_neighbors():
    objective, batch = make("bilm")
    model = model_for(objective)
    outcome = objective.outcome(model, batch)
    shares = model.mlm_logits(model.encode(batch).hidden).log_softmax(-1)  # [tokens, 2, vocab]
    for number, part in enumerate(("clm", "backward")):
        where, right = batch.labels[f"{part}_positions"], batch.labels[part]
        torch.testing.assert_close(outcome.losses[part], -shares[where, number, right].sum())
