"""Replaced-token detection: the draw, who sees what, the loss by hand, and its independence of the pack."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.models.presets import preset
from maskwright.objectives.replaced import (
    ReplacedTokenDetection,
    ReplacedTokenPair,
    draw,
    generator_config,
    replace_with_samples,
)
from maskwright.train.loop import Window
from objectives.packing import CONFIG, MASK, batch_of, lively, objective_of


def test_a_draw_is_the_first_token_whose_cumulated_probability_is_above_it():
    logits = torch.tensor([[0.2, 0.3, 0.5]]).log().repeat(5, 1)
    draws = torch.tensor([0.0, 0.19, 0.21, 0.49, 0.9999999])
    assert draw(logits, draws).tolist() == [0, 0, 1, 1, 2]


def test_draws_follow_the_softmax():
    share = np.array([0.05, 0.6, 0.1, 0.25])
    uniform = torch.from_numpy(np.random.default_rng(0).random(40_000, dtype=np.float32))
    drawn = draw(torch.tensor(np.log(share) + 3.0).float().repeat(40_000, 1), uniform)
    counts = np.bincount(drawn.numpy(), minlength=4)
    chi_squared = ((counts - 40_000 * share) ** 2 / (40_000 * share)).sum()
    assert chi_squared < 16.3  # 3 degrees of freedom, p = 0.001


def test_the_generator_sees_masks_alone_and_the_discriminator_none():
    objective = objective_of("rtd")
    batch = batch_of(objective)
    assert bool((batch.input_ids[batch.labels["mlm_positions"]] == MASK).all())
    logits = torch.full((len(batch.labels["mlm"]), CONFIG.vocab_size), -9.0)
    right = batch.labels["mlm"].clone()
    right[::2] = (right[::2] + 1) % CONFIG.vocab_size
    logits[torch.arange(len(right)), right] = 99.0
    played, is_replaced = replace_with_samples(batch, logits)
    assert torch.equal(played.input_ids[batch.labels["mlm_positions"]], right)
    assert is_replaced.nonzero().flatten().tolist() == batch.labels["mlm_positions"][::2].tolist()


def test_the_loss_is_the_generators_plus_fifty_times_the_discriminators():
    objective = objective_of("rtd")
    model, batch = lively(objective), batch_of(objective)
    assert isinstance(model, ReplacedTokenPair)
    with torch.no_grad():
        outcome = objective.outcome(model, batch)
        hidden = model.generator.encode(batch).hidden[batch.labels["mlm_positions"]]
        guesses = model.generator.mlm_logits(hidden)
        played, is_replaced = replace_with_samples(batch, guesses)
        logits = model.discriminator.logits(played)
    by_hand = sum(
        math.log1p(math.exp(-value if replaced else value))
        for value, replaced in zip(logits.tolist(), is_replaced.tolist(), strict=True)
    )
    picked = guesses.softmax(-1)[torch.arange(len(guesses)), batch.labels["mlm"]]
    assert float(outcome.losses["rtd"]) == pytest.approx(by_hand, rel=1e-5)
    assert float(outcome.losses["mlm"]) == pytest.approx(float(-picked.log().sum()), rel=1e-5)
    window = Window()
    window.add(outcome)
    means = window.means()
    assert means["loss"] == pytest.approx(means["mlm_loss"] + 50 * means["rtd_loss"])
    assert means["rtd_loss"] == pytest.approx(by_hand / batch.num_tokens, rel=1e-5)
    assert means["rtd_baseline"] == pytest.approx(1 - float(is_replaced.float().mean()))
    assert means["rtd_accuracy"] == pytest.approx(float(((logits > 0) == is_replaced).float().mean()))


def test_no_gradient_passes_through_the_draw():
    objective = objective_of("rtd")
    model, batch = lively(objective), batch_of(objective)
    objective.outcome(model, batch).losses["rtd"].backward()
    shared = {id(parameter) for parameter in model.discriminator.parameters()}
    alone = [parameter for parameter in model.generator.parameters() if id(parameter) not in shared]
    assert alone and all(parameter.grad is None for parameter in alone)


def test_a_new_generator_is_no_copy_of_the_discriminator():
    model = objective_of("rtd", generator_share=1.0).network(CONFIG, seed=4)
    ours, theirs = (net.encoder.layers[0].ffn.up.weight for net in (model.generator, model.discriminator))
    assert ours.shape == theirs.shape and not torch.equal(ours, theirs)


@pytest.mark.parametrize(("name", "share", "sizes"), [
    ("electra-small", 0.25, (64, 1, 256, 128)),
    ("electra-large", 0.25, (256, 4, 1024, 1024)),
    ("electra-base", 1 / 3, (256, 4, 1024, 768)),
])  # fmt: skip
def test_generators_have_the_published_sizes(name: str, share: float, sizes: tuple[int, ...]):
    made = generator_config(preset(name), share)
    assert (made.hidden_size, made.num_attention_heads, made.intermediate_size, made.table_size) == sizes


@given(heads=st.integers(1, 12), width=st.integers(1, 40), share=st.floats(0.01, 1.0))
def test_every_share_gives_a_network(heads: int, width: int, share: float):
    made = generator_config(preset("bert-tiny", hidden_size=heads * width, num_attention_heads=heads), share)
    assert made.table_size == heads * width
    assert made.hidden_size <= heads * width + made.num_attention_heads


@pytest.mark.parametrize("share", [0.3, 0.5, 1.0])
def test_shared_keys_and_a_bare_word_head_have_a_generator(share: float):
    config = replace(CONFIG, num_key_value_heads=1, mlm_dense=False)
    made = objective_of("rtd", generator_share=share).network(config, seed=4).generator.config
    assert made.num_key_value_heads == 1 and made.mlm_dense


def test_a_single_discriminator_is_scored_with_an_untrained_generator():
    objective = objective_of("rtd")
    assert isinstance(objective, ReplacedTokenDetection)
    model, batch = lively(objective), batch_of(objective)
    with torch.no_grad():
        once, again = (objective.outcome(model.discriminator, batch).losses for _ in range(2))
    assert all(torch.equal(once[part], again[part]) for part in once)
