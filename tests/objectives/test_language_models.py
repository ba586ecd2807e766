"""Objectives of language modeling: causal, in streams, denoising, and replaced tokens."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contracts.objectives import CLS, FIRST_WORD, MASK, SEP, Documents, make, model_for
from maskwright.core.errors import ConfigError, InputError
from maskwright.core.randomness import generator
from maskwright.models.config import ModelConfig
from maskwright.models.presets import preset
from maskwright.objectives.base import Recipe
from maskwright.objectives.causal import ContiguousStreams, StatefulCausalLM, StatefulLanguageModel, predicted_tokens
from maskwright.objectives.denoising import Denoising, hide_spans, random_partition, restore_spans, spans_of
from maskwright.objectives.masked import special_tokens
from maskwright.objectives.replaced import (
    ReplacedTokenDetection,
    ReplacedTokenPair,
    draw,
    generator_config,
    replace_with_samples,
)
from maskwright.objectives.segments import sentence_bounds
from maskwright.train.loop import Window
from models.recurrent_models import model
from objectives.packing import CONFIG, batch_of, lively, objective_of


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


# -- Contiguous streams ----------------------------------------------------------------------------------------------


class Shards(Documents):
    def document_lengths(self):
        return np.array([len(tokens) for tokens in self.tokens])


def recipe(length=7, **changes):
    return replace(Recipe(CLS, SEP, special_tokens(range(5), 150), length), **changes)


def streams(length=7, num_streams=3, seed=1, accumulation=1, **changes):
    return ContiguousStreams(Shards(), np.arange(8), recipe(length, **changes), num_streams, seed, accumulation)


def whole(frames=True):
    return [id for tokens in Shards().tokens for id in [*([CLS] if frames else []), *tokens.tolist(), SEP]]


@given(st.integers(2, 30), st.integers(1, 6), st.integers(0, 3))
def test_an_epoch_is_the_text_in_streams_each_in_order(length, num_streams, seed):
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
        def __init__(self):
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


def stateful(seed=0):
    objective = StatefulCausalLM(recipe())
    return objective, StatefulLanguageModel(model(vocab_size=150, seed=seed)).eval()


def total(objective, carrier, batches):
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


# -- Denoising -------------------------------------------------------------------------------------------------------

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


# -- Replaced-token detection ----------------------------------------------------------------------------------------


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
def test_generators_have_the_published_sizes(name, share, sizes):
    made = generator_config(preset(name), share)
    assert (made.hidden_size, made.num_attention_heads, made.intermediate_size, made.table_size) == sizes


@given(heads=st.integers(1, 12), width=st.integers(1, 40), share=st.floats(0.01, 1.0))
def test_every_share_gives_a_network(heads, width, share):
    made = generator_config(preset("bert-tiny", hidden_size=heads * width, num_attention_heads=heads), share)
    assert made.table_size == heads * width
    assert made.hidden_size <= heads * width + made.num_attention_heads


@pytest.mark.parametrize("share", [0.3, 0.5, 1.0])
def test_shared_keys_and_a_bare_word_head_have_a_generator(share):
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
