"""Translation decoding: caches, beam search, batches; on tiny vocabularies compared with all texts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.core.errors import InputError
from maskwright.data.batch import Batch
from maskwright.inference.engine.engine import Engine
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.decoding.rules import Decoder, Rules
from maskwright.models.decoding.search import Beams, grow, search_beams
from maskwright.models.decoding.translation import target_decoder, translate_ids
from maskwright.models.encoder_decoder import EncoderDecoder

START, END = 1, 2
CONFIG = ModelConfig(
    vocab_size=20,
    hidden_size=16,
    num_hidden_layers=1,
    num_decoder_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=16,
    type_vocab_size=0,
    pooler=False,
    positions="sinusoidal",
    decoder_start_token_id=START,
    eos_token_id=END,
    initializer_range=0.6,
)
SOURCES = [[5, 6, 7, 8], [9], [10, 11, 12, 13, 14, 15], [16, 17]]
PROMPTS = [[START]] * len(SOURCES)
RECURRENT = replace(
    CONFIG,
    family="maskwright",
    recurrent="lstm",
    num_attention_heads=1,
    num_hidden_layers=2,
    positions="none",
    embedding_norm=False,
    bare_heads=True,
)
RECURRENT_SWITCHES = [
    replace(RECURRENT, recurrent="rnn", num_decoder_layers=1, attention="causal"),
    replace(RECURRENT, recurrent="gru", decoder_vocab_size=11, separate_directions=True),
    replace(RECURRENT, attention_score="dot"),
    replace(RECURRENT, attention_score="bilinear", input_feeding=True, recurrent_residual=True, num_decoder_layers=3),
    replace(RECURRENT, recurrent="gru", attention_score="mlp", input_feeding=True, num_decoder_layers=1),
    replace(RECURRENT, attention_score="additive", input_feeding=True),
]
SWITCHES = [
    CONFIG,
    replace(CONFIG, norm="pre", positions="rotary"),
    replace(CONFIG, positions="relative_key", relative_distance=3),
    replace(CONFIG, decoder_vocab_size=11, positions="absolute"),
]


def made(config: ModelConfig = CONFIG, seed: int = 0) -> EncoderDecoder:
    """In evaluation mode and float64."""
    model = build(config, "seq2seq", seed=seed)
    assert isinstance(model, EncoderDecoder)
    return model.double().eval()


def decoder(model: EncoderDecoder, sources: list[list[int]], steps: int) -> Decoder:
    """Over these sources."""
    return target_decoder(model, Batch.from_sequences(sources), steps)


@pytest.mark.parametrize("config", [*SWITCHES, *RECURRENT_SWITCHES])
def test_steps_give_the_numbers_of_whole_targets_also_when_rows_change_places(config: ModelConfig):
    model = made(config)
    moves = [torch.tensor([0, 0, 1, 1, 2, 2, 3, 3]), torch.tensor([1, 0, 2, 2, 5, 4, 7, 6]), torch.tensor([4, 0, 1])]
    rows, written = decoder(model, SOURCES, 8), [(source, [START]) for source in SOURCES]
    found = [rows.start()]
    wanted = [whole(model, written)]
    for step, move in enumerate([*moves, torch.tensor([2, 1, 2])]):
        rows.keep(move)
        tokens = (torch.arange(len(move)) * 3 + step) % 9
        written = [
            (written[row][0], [*written[row][1], token])
            for row, token in zip(move.tolist(), tokens.tolist(), strict=True)
        ]
        found.append(rows.step(tokens))
        wanted.append(whole(model, written))
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def whole(model: EncoderDecoder, rows: list[tuple[list[int], list[int]]]) -> torch.Tensor:
    """Logits after each target, which is decoded at once."""
    source, target = (Batch.from_sequences(side) for side in zip(*rows, strict=True))
    hidden = model.decode(target, model.encode(source).hidden, source).hidden
    return model.mlm_logits(hidden[target.last_tokens]).detach().float()


@pytest.mark.parametrize("config", [CONFIG, *RECURRENT_SWITCHES])
def test_greedy_and_one_beam_write_the_same_and_what_stands_beside_changes_nothing(config: ModelConfig):
    model = made(config)
    greedy = grow(decoder(model, SOURCES, 9), PROMPTS, Rules(greedy=True), max_new_tokens=9, end_ids={END})
    beam = search_beams(decoder(model, SOURCES, 9), PROMPTS, Beams(1), max_new_tokens=9, end_ids={END})
    assert [one.ids for one in greedy] == [one[0].ids for one in beam]
    for source, beside in zip(SOURCES, greedy, strict=True):
        (alone,) = grow(decoder(model, [source], 9), [[START]], Rules(greedy=True), max_new_tokens=9, end_ids={END})
        assert alone.ids == beside.ids and alone.score == pytest.approx(beside.score, abs=1e-4)


def closes(text: int, ids: list[int]) -> Callable[[int], bool]:
    """A rule: 4 comes where a 3 is open, and the end where none is."""
    depth = ids.count(3) - ids.count(4)
    return lambda token: depth == 0 if token == END else depth > 0 if token == 4 else True


def test_a_rule_gets_the_text_index_and_a_dead_end_has_no_result():
    model = made(replace(CONFIG, vocab_size=200))
    sources = [np.array(one) for one in ([5, 6, 7], [9], [10, 11])]

    def allows(text: int, ids: list[int]) -> Callable[[int], bool]:
        """The first text may write 150 alone, far down in the vocabulary, the second nothing, the third anything."""
        return lambda token: (token == 150, False, True)[text]

    first, second, third = translate_ids(model, sources, Beams(2, 2), end_ids={END}, max_new_tokens=4, allows=allows)
    assert [one.ids for one in first] == [[150] * 4] and second == []
    freely = translate_ids(model, sources, Beams(2, 2), end_ids={END}, max_new_tokens=4)[2]
    assert [one.ids for one in third] == [one.ids for one in freely]


@settings(max_examples=16, deadline=None)
@given(
    st.integers(0, 2**16),
    st.sampled_from([0.0, 0.6, 1.0, -0.5]),
    st.integers(2, 4),
    st.booleans(),
    st.sampled_from([CONFIG, RECURRENT_SWITCHES[-1]]),
)
def test_a_wide_beam_finds_the_best_of_all_texts(
    seed: int, penalty: float, longest: int, is_ruled: bool, config: ModelConfig
):
    """Every text over a vocabulary of 5, of which one token ends it and one is banned, scored one by one; with a rule,
    every text that it allows: what 3 opens 4 closes.
    """
    model = made(replace(config, decoder_vocab_size=5), seed=seed)
    texts = [
        [*words, *ending]
        for length in range(longest + 1)
        for words in itertools.product((1, 3, 4), repeat=length)
        for ending in ([[END]] if length < longest else [[]])
    ]
    if is_ruled:
        texts = [text for text in texts if all(closes(0, text[:end])(token) for end, token in enumerate(text))]
    width = len(texts)
    found = search_beams(
        decoder(model, SOURCES[:3], longest),
        PROMPTS[:3],
        Beams(width, num_results=3, length_penalty=penalty),
        max_new_tokens=longest,
        end_ids={END},
        banned_ids={0},
        allows=closes if is_ruled else None,
    )
    for source, best in zip(SOURCES[:3], found, strict=True):
        scores = {}
        for text in texts:
            pair, target = Batch.from_sequences([source]), Batch.from_sequences([[START, *text[:-1]]])
            with torch.no_grad():
                logits = model.mlm_logits(model.decode(target, model.encode(pair).hidden, pair).hidden)
            total = float(logits.log_softmax(-1)[range(len(text)), text].sum())
            scores[tuple(text)] = total / len(text) ** penalty
        wanted = sorted(scores.items(), key=lambda one: -one[1])[:3]
        assert len(best) == len(wanted)
        for one, (text, score) in zip(best, wanted, strict=True):
            assert one.score == pytest.approx(score, abs=1e-5)
            assert (*one.ids, *([END] if one.is_ended else [])) == text


@pytest.mark.compatibility(
    "ctranslate2 4.8.5",
    theirs="The end token is excluded from the first step before the softmax, so a score is above the log probability",
    ours="A score is the log probability by the model, end token included; what is excluded raises no other token",
)
def test_a_banned_token_is_never_written_and_its_probability_goes_to_no_other():
    model = made()
    with torch.no_grad():
        model.head.bias[7] = 50.0
    free = grow(decoder(model, SOURCES, 4), PROMPTS, Rules(greedy=True), max_new_tokens=4)
    banned = grow(decoder(model, SOURCES, 4), PROMPTS, Rules(greedy=True), max_new_tokens=4, banned_ids={7})
    assert all(one.ids == [7] * 4 for one in free)
    assert all(7 not in one.ids and one.score < -50 for one in banned)
    beams = search_beams(decoder(model, SOURCES, 4), PROMPTS, Beams(3), max_new_tokens=4, banned_ids={7})
    assert all(7 not in one[0].ids and one[0].score < -10 for one in beams)


@pytest.mark.parametrize("config", SWITCHES)
@pytest.mark.parametrize("num_sources", [1, 4])
def test_an_engine_writes_the_same(config: ModelConfig, num_sources: int):
    model, found = made(config).float(), []
    for engine in (None, Engine()):
        model.engine = engine
        rows = decoder(model, SOURCES[:num_sources], 6)
        own = [rows.start()]
        rows.keep(torch.arange(num_sources).repeat_interleave(2))
        for step in range(5):
            own.append(rows.step((torch.arange(2 * num_sources) * 3 + step) % 9))
        found.append(own)
    for plain, fixed in zip(*found, strict=True):
        torch.testing.assert_close(fixed, plain, rtol=0, atol=1e-4)


@pytest.mark.parametrize("config", [CONFIG, *RECURRENT_SWITCHES])
def test_beams_of_one_text_change_places_without_a_copy_of_what_they_share(config: ModelConfig):
    model = made(config)
    beams = decoder(model, SOURCES[:2], 8)
    beams.start()
    beams.keep(torch.tensor([0, 0, 0, 1, 1, 1]))
    written = [(source, [START]) for source in SOURCES[:2] for _ in range(3)]
    draws = torch.Generator().manual_seed(0)
    for step in range(6):
        tokens = torch.randint(3, 9, (6,), generator=draws)
        written = [(source, [*own, token]) for (source, own), token in zip(written, tokens.tolist(), strict=True)]
        assert torch.allclose(beams.step(tokens), whole(model, written), atol=1e-5)
        order = [[1, 0, 2, 3, 3, 5], [2, 2, 0, 4, 5, 3], [0, 1, 1, 5, 5, 5]][step % 3]
        beams.keep(torch.tensor(order), same_texts=True)
        written = [written[row] for row in order]


def test_what_cannot_be_written_is_refused():
    with pytest.raises(InputError, match="has no decoder_start_token_id"):
        decoder(made(replace(CONFIG, decoder_start_token_id=None)), SOURCES, 4)
    with pytest.raises(InputError, match="maximum of 16"):
        decoder(made(), SOURCES, 17)
