"""Laws of decoding: the cache changes nothing, beams find the best, draws follow the seed, texts share steps."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError
from maskwright.inference.engine.engine import Engine
from maskwright.inference.generate import Generation, TextGenerator
from maskwright.models.build import build
from maskwright.models.config import CHOICES, ModelConfig
from maskwright.models.decoding.causal import CausalDecoder
from maskwright.models.decoding.rules import HEAD, PART, Rules, choose, draw, highest, most_probable, probabilities
from maskwright.models.decoding.search import Beams, grow, search_beams
from studio.models import write_writer

TINY = ModelConfig(
    vocab_size=30,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=12,
    initializer_range=0.4,
    relative_distance=3,
    attention="causal",
    pad_token_id=0,
)
PROMPTS = [[3, 4, 5], [6], [7, 8, 9, 10, 11, 12, 13], [14, 15]]


def model(**changes):
    return build(replace(TINY, **changes), "clm", seed=2).eval()


def logits_of(decoder, fed, keeps):
    """The logits of every step when the columns of `fed` [rows, steps] are read; keeps: rows kept after a step."""
    found = [decoder.start()]
    for step in range(fed.shape[1]):
        found.append(decoder.step(fed[:, step]))
        if step in keeps:
            rows = torch.tensor(keeps[step])
            decoder.keep(rows)
            fed = fed[rows]
    return found


@settings(max_examples=12, deadline=None)
@given(
    positions=st.sampled_from(CHOICES["positions"]),
    norm=st.sampled_from(["pre", "post"]),
    gated=st.booleans(),
    buckets=st.sampled_from([0, 32]),
    groups=st.sampled_from([None, 1]),
    room=st.sampled_from([1, 2, 3, 7, 12]),
)
def test_with_and_without_a_cache_the_numbers_are_the_same_beyond_the_context_too(
    positions, norm, gated, buckets, groups, room
):
    buckets = 0 if positions.startswith("relative") else buckets
    network = model(
        positions=positions,
        norm=norm,
        gated=gated,
        relative_buckets=buckets,
        num_hidden_groups=groups,
        max_position_embeddings=room,
    )
    fed = torch.randint(3, 30, (4, 20), generator=torch.Generator().manual_seed(0))
    keeps = {4: [2, 0, 2, 3], 9: [1, 0]}
    pairs = zip(
        logits_of(CausalDecoder(network, PROMPTS, 20), fed, keeps),
        logits_of(CausalDecoder(network, PROMPTS, 20, use_cache=False), fed, keeps),
        strict=True,
    )
    for step, (cached, plain) in enumerate(pairs):
        torch.testing.assert_close(cached, plain, rtol=0, atol=2e-5, msg=lambda said, step=step: f"step {step}: {said}")


def test_each_step_gives_what_one_pass_over_the_whole_text_gives():
    """Teacher forcing and decoding step by step are one computation."""
    network = model()
    text = [3, 9, 4, 8, 5, 7, 6, 10, 11, 12]
    whole = network(input_ids=torch.tensor([text])).logits[0]  # [tokens, vocab]
    steps = logits_of(CausalDecoder(network, [text[:2]], 8), torch.tensor([text[2:]]), {})
    torch.testing.assert_close(torch.cat(steps), whole[1:], rtol=0, atol=1e-5)


def test_a_row_goes_on_the_same_whatever_stands_beside_it_and_however_often_windows_move():
    network = model(max_position_embeddings=6)
    rules = Rules(greedy=True)
    together = grow(CausalDecoder(network, PROMPTS, 40), PROMPTS, rules, max_new_tokens=40)
    for prompt, one in zip(PROMPTS, together, strict=True):
        alone = grow(CausalDecoder(network, [prompt], 40, use_cache=False), [prompt], rules, max_new_tokens=40)
        assert alone[0].ids == one.ids


def test_beams_of_one_text_share_what_came_before_them():
    network = model()
    decoder, plain = (CausalDecoder(network, [[3, 4, 5]], 9, use_cache=use) for use in (True, False))
    for one in (decoder, plain):
        one.start()
        one.keep(torch.zeros(3, dtype=torch.int64))
    fed = torch.randint(3, 30, (3, 8), generator=torch.Generator().manual_seed(1))
    for step in range(8):
        torch.testing.assert_close(decoder.step(fed[:, step]), plain.step(fed[:, step]), rtol=0, atol=1e-5)
        order = torch.tensor([[1, 0, 2], [2, 2, 0], [0, 1, 1]][step % 3])
        for one in (decoder, plain):
            one.keep(order, same_texts=True)


@pytest.mark.parametrize("num_rows", [1, 4])
@pytest.mark.parametrize(
    "changes", [{}, {"gated": True, "norm": "pre", "positions": "rotary"}, {"bare_heads": True, "pooler": False}]
)
def test_an_engine_gives_the_same_numbers_until_training_changes_the_weights(num_rows, changes):
    network, other = model(**changes), model(**changes)
    network.engine = Engine()
    prompts, fed = PROMPTS[:num_rows], torch.randint(3, 30, (num_rows, 12), generator=torch.Generator().manual_seed(0))
    for _ in range(2):
        ours, theirs = (logits_of(CausalDecoder(one, prompts, 12), fed, {}) for one in (network, other))
        for one, two in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=2e-5)
        with torch.no_grad():
            for part in (*network.parameters(), *other.parameters()):
                part.mul_(1.1)


# -- beams -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_wide_beams_find_the_best_of_all_texts(penalty):
    network, end, steps = model(vocab_size=4, pad_token_id=None), 3, 4
    found = search_beams(
        CausalDecoder(network, [[0, 1]], steps),
        [[0, 1]],
        Beams(64, 64, length_penalty=penalty),
        max_new_tokens=steps,
        end_ids={end},
    )[0]
    scores = {}
    for length in range(1, steps + 1):
        for text in itertools.product(range(3), repeat=length - 1):
            for last in [end] if length < steps else range(4):
                whole = torch.tensor([[0, 1, *text, last]])
                shares = network(input_ids=whole).logits[0].log_softmax(-1)
                gained = sum(shares[place + 1, token].item() for place, token in enumerate([*text, last]))
                scores[(*text, last)] = gained / length**penalty
    best = sorted(scores.items(), key=lambda one: -one[1])[:20]
    for (text, score), one in zip(best, found, strict=False):
        assert (*one.ids, *([end] if one.is_ended else [])) == text
        assert one.score == pytest.approx(score, abs=1e-4)


# -- draws -------------------------------------------------------------------------------------------------------------

logit_rows = st.lists(st.floats(-8, 8, width=32), min_size=3, max_size=40)


@given(values=logit_rows, k=st.integers(1, 50), p=st.floats(0.01, 1.0), uniform=st.floats(0, 1, exclude_max=True))
@settings(max_examples=60, deadline=None)
def test_a_drawn_token_is_among_the_k_most_probable_and_in_the_nucleus(values, k, p, uniform):
    logits = torch.tensor([values])
    uniforms = torch.tensor([uniform], dtype=torch.float64)
    token = int(choose(logits, Rules(top_k=k), uniforms, None))
    assert sum(value > values[token] for value in values) < k
    token = int(choose(logits, Rules(top_p=p), uniforms, None))
    shares = logits.double().softmax(-1)[0]
    assert float(shares[shares > shares[token]].sum()) < p + 1e-9


def test_draws_spread_over_all_numbers_have_the_shares_of_the_model():
    logits = torch.tensor([[0.3, -1.0, 2.0, 0.0, 1.1]])
    shares, _ = probabilities(logits, Rules(temperature=0.7))
    torch.testing.assert_close(shares, (logits.double() / 0.7).softmax(-1))
    count = 20_000
    uniforms = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    drawn = draw(shares.expand(count, -1), uniforms)
    counted = torch.bincount(drawn, minlength=5).double() / count
    torch.testing.assert_close(counted, shares[0], rtol=0, atol=2 / count)


def test_the_nucleus_of_a_large_vocabulary_is_found_without_a_sort_of_all_and_is_the_same():
    generator = torch.Generator().manual_seed(0)
    for spread in (0.1, 4.0):  # flat: more than HEAD tokens are needed; peaked: fewer
        logits = torch.randn(2, 3 * HEAD, generator=generator) * spread
        shares, ids = probabilities(logits, Rules(top_p=0.9))
        whole = torch.zeros(2, 3 * HEAD, dtype=torch.float64).scatter(1, ids, shares)
        ordered, order = logits.double().softmax(-1).sort(descending=True)
        kept = ordered.masked_fill(ordered.cumsum(-1) - ordered >= 0.9, 0)
        expected = torch.zeros_like(whole).scatter(1, order, kept / kept.sum(-1, keepdim=True))
        torch.testing.assert_close(whole, expected)


def test_copies_of_a_text_are_drawn_by_their_own_numbers():
    network = model()
    uniforms = torch.from_numpy(np.random.default_rng(0).random((6, 10)))
    rules = Rules(temperature=1.3)
    both = grow(
        CausalDecoder(network, PROMPTS[:2], 10), PROMPTS[:2], rules, max_new_tokens=10, uniforms=uniforms, copies=3
    )
    for number, one in enumerate(both):
        prompt = PROMPTS[number // 3]
        own = uniforms[number : number + 1]
        alone = grow(CausalDecoder(network, [prompt], 10), [prompt], rules, max_new_tokens=10, uniforms=own)[0]
        assert alone.ids == one.ids
        assert alone.score == pytest.approx(one.score, abs=1e-4)


@pytest.mark.parametrize(
    "values, said",
    [
        ({"temperature": 0}, "at least 0.000001.*--greedy"),
        ({"temperature": -1.0}, "at least"),
        ({"temperature": 1e-310}, "at least 0.000001"),
        ({"top_k": 0}, "at least 1"),
        ({"top_p": 0.0}, "above 0"),
        ({"top_p": 1.5}, "at most 1"),
        ({"repetition_penalty": 0.0}, "0.000001 to 1,000,000"),
        ({"repetition_penalty": 5e-324}, "0.000001 to 1,000,000"),
        ({"repetition_penalty": math.nan}, "0.000001 to 1,000,000"),
        ({"greedy": True, "top_k": 3}, "remove temperature"),
    ],
)
def test_impossible_rules_are_refused_in_words(values, said):
    with pytest.raises(ConfigError, match=said):
        Rules(**values)


def test_impossible_beams_are_refused_in_words():
    with pytest.raises(ConfigError, match="it must be 1 to 1,000"):
        Beams(0)
    with pytest.raises(ConfigError, match="1 to 2"):
        Beams(2, 3)


@settings(max_examples=60, deadline=None)
@given(vocab=st.integers(1, 9 * PART), few=st.integers(1, 5), kinds=st.integers(2, 500), seed=st.integers(0, 99))
def test_the_highest_scores_are_those_of_torch_also_where_many_are_equal(vocab, few, kinds, seed):
    draws = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, kinds, (3, vocab), generator=draws).float()
    scores[0, : vocab // 2] = float("-inf")
    few = min(few, vocab)
    values, places = highest(scores, few)
    assert torch.equal(values, scores.topk(few).values)
    assert torch.equal(scores.gather(1, places), values)
    assert all(len(set(row)) == few for row in places.tolist())
    first = [row.index(max(row)) for row in scores.tolist()]
    assert most_probable(scores).tolist() == first


# -- Texts that share their steps are the texts that each decoder gives alone ----------------------------------------

GREEDY, DRAWN = Rules(greedy=True), Rules(temperature=0.9, top_k=20, repetition_penalty=1.2)
STARTS = ["the cat", "where does the river rise ?", "a", "ada lovelace met", "dogs chase cats in the garden"]


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    from maskwright.api import open_model

    return open_model(write_writer(tmp_path_factory.mktemp("models") / "writer"), "generate", "cpu", "fp32")


def settings_of(number):
    """Other lengths, rules and seeds for each text; some have several results."""
    rules = DRAWN if number % 2 else GREEDY
    count = 3 if number == 3 else 1
    return Generation(max_new_tokens=5 + 37 * (number % 3), rules=rules, num_results=count, seed=number)


def together(generator, starts, leaving=None):
    """Give each text a step in turn. starts: texts that begin before a round; leaving: round in which it ends."""
    live, found, number = {}, {}, 0
    while live or any(one >= number for one in starts):
        for one in starts.get(number, []):
            live[one] = generator.generate_steps([STARTS[one]], settings_of(one))
        for one in list(live):
            if (leaving or {}).get(one) == number:
                live.pop(one).close()
                continue
            try:
                with torch.inference_mode():
                    next(live[one])
            except StopIteration as end:
                found[one] = end.value
                del live[one]
        number += 1
    return found


def alone(model, number):
    return TextGenerator(model, max_length=48).generate([STARTS[number]], settings_of(number))


@pytest.mark.parametrize(
    "starts", [{0: [0, 1, 2, 3, 4]}, {0: [3], 2: [0, 1], 7: [4], 30: [2]}, {0: [4], 60: [1], 61: [0, 3]}]
)
def test_texts_join_and_leave_between_steps(writer, starts):
    """Windows of 48 tokens are full and begin again in between."""
    generator = TextGenerator(writer, max_length=48, shares_steps=True)
    found = together(generator, starts)
    assert sorted(found) == sorted(one for ones in starts.values() for one in ones)
    for number, texts in found.items():
        assert [one.text for one in texts[0]] == [one.text for one in alone(writer, number)[0]], number
        for one, other in zip(texts[0], alone(writer, number)[0], strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-3) and one.ended_by == other.ended_by


def test_five_texts_take_the_steps_of_one(writer, monkeypatch):
    calls = []
    own = CausalDecoder.step
    monkeypatch.setattr(CausalDecoder, "step", lambda self, tokens: calls.append(len(tokens)) or own(self, tokens))
    settings = Generation(max_new_tokens=10, rules=GREEDY)
    generator = TextGenerator(writer, shares_steps=True)
    live = [generator.generate_steps([prompt], settings) for prompt in STARTS]
    while live:
        for one in list(live):
            try:
                next(one)
            except StopIteration:
                live.remove(one)
    assert sum(calls) == len(STARTS) * 9 and len(calls) == 9


def test_an_error_reaches_each_text_once(writer, monkeypatch):
    generator = TextGenerator(writer, shares_steps=True)
    live = [generator.generate_steps([prompt], Generation(max_new_tokens=5)) for prompt in STARTS[:3]]
    for one in live:
        next(one)

    def fail(self, tokens):
        raise MemoryError

    with monkeypatch.context() as changed:
        changed.setattr(CausalDecoder, "step", fail)
        for one in live:
            with pytest.raises(MemoryError):
                next(one)
    assert generator.generate(["the cat"], Generation(max_new_tokens=3, rules=GREEDY))[0][0].num_tokens == 3
