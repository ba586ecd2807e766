"""Forward and backward language models: the targets of each direction, and that neither sees them."""

from __future__ import annotations

import torch

from contracts.objectives import CLS, FIRST_WORD, make, model_for


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
