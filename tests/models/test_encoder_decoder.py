"""Encoder-decoders, transformers and recurrent ones: packs, folders, formulas, and decoding."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError, InputError
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model
from maskwright.inference.engine.engine import Engine
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.decoding.rules import Rules
from maskwright.models.decoding.search import Beams, grow, search_beams
from maskwright.models.decoding.translation import target_decoder, translate_ids
from maskwright.models.encoder_decoder import EncoderDecoder
from maskwright.models.model import Model
from maskwright.models.presets import preset
from maskwright.nn.recurrent import CELLS

SIZES = {
    "vocab_size": 40,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_decoder_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
    "type_vocab_size": 0,
    "pooler": False,
    "pad_token_id": 0,
    "decoder_start_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.3,
}
CONFIG = ModelConfig(**SIZES, positions="sinusoidal", scale_embeddings=True, embedding_norm=False)
TWO = replace(CONFIG, decoder_vocab_size=30)
SWITCHES = [
    CONFIG,
    replace(CONFIG, norm="pre"),
    TWO,
    replace(CONFIG, tie_word_embeddings=False, norm="pre", first_norm=False),
    replace(CONFIG, positions="rotary"),
    replace(CONFIG, positions="relative_key_value", relative_distance=4),
    replace(CONFIG, positions="absolute", gated=True, linear_bias=False, num_hidden_groups=1),
]
SOURCES = [[5, 6, 7, 8], [9], [10, 11, 12, 13, 14, 15], [16, 17]]
TARGETS = [[1, 5, 6], [1, 7, 8, 9, 10], [1], [1, 11]]


def made(config=CONFIG):
    model = build(config, "seq2seq", seed=3)
    assert isinstance(model, EncoderDecoder)
    return model.double().eval()


def logits(model, sources, targets):
    source, target = Batch.from_sequences(sources), Batch.from_sequences(targets)
    with torch.no_grad():
        memory = model.encode(source).hidden
        found = model.mlm_logits(model.decode(target, memory, source).hidden)
    return list(found.split([len(one) for one in targets]))


@pytest.mark.parametrize("config", SWITCHES)
def test_a_pair_gives_what_it_gives_beside_others(config):
    model = made(config)
    together = logits(model, SOURCES, TARGETS)
    for source, target, beside in zip(SOURCES, TARGETS, together, strict=True):
        (alone,) = logits(model, [source], [target])
        assert torch.allclose(alone, beside, atol=1e-9)


@pytest.mark.parametrize("config", SWITCHES)
def test_a_target_token_changes_nothing_before_it(config):
    model, target, place = made(config), [1, 7, 8, 9, 10], 3
    changed = [*target[:place], target[place] + 1, *target[place + 1 :]]
    (one,), (other,) = logits(model, [SOURCES[0]], [target]), logits(model, [SOURCES[0]], [changed])
    assert torch.equal(one[:place], other[:place])
    assert not torch.allclose(one[place:], other[place:])


@pytest.mark.parametrize("config", SWITCHES)
def test_padded_rows_give_what_packs_give_and_every_parameter_learns(config):
    model = made(config)
    ids = torch.tensor([row + [0] * (6 - len(row)) for row in SOURCES])
    mask = torch.tensor([[1] * len(row) + [0] * (6 - len(row)) for row in SOURCES])
    target = torch.tensor([row + [0] * (5 - len(row)) for row in TARGETS])
    kept = torch.tensor([[1] * len(row) + [0] * (5 - len(row)) for row in TARGETS])
    out = model(ids, mask, decoder_input_ids=target, decoder_attention_mask=kept, output_attentions=True)
    for row, packed in enumerate(logits(model, SOURCES, TARGETS)):
        assert torch.allclose(out.logits[row, : len(packed)], packed, atol=1e-9)
    assert all(torch.allclose(one.sum(-1), kept[:, None].double()) for one in out.cross_attentions)
    (out.logits**2).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.any()), name


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=8), st.integers(0, 2**20))
def test_cross_attention_in_groups_is_attention_of_each_pair(pairs, seed):
    from maskwright.nn.attention import scaled_dot_product
    from maskwright.nn.cross import CrossAttention, cross_attend, plan_pairs

    generator = torch.Generator().manual_seed(seed)
    attention = CrossAttention(8, 2, 0.0).double()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    lengths, others = zip(*pairs, strict=True)
    hidden, memory = (torch.randn(sum(n), 8, dtype=torch.float64, generator=generator) for n in (lengths, others))
    groups = plan_pairs(lengths, others, 2, torch.device("cpu"))
    context, weights = cross_attend(attention, hidden, memory=memory, groups=groups, want_weights=True)
    assert weights is not None
    for own, other, found, shares in zip(
        hidden.split(lengths), memory.split(others), context.split(lengths), weights, strict=True
    ):
        query = attention.query(own).view(len(own), 2, 4).transpose(0, 1)
        key, value = attention.key_value(other).view(len(other), 2, 2, 4).permute(1, 2, 0, 3)
        wanted, wanted_shares = scaled_dot_product(query, key, value)
        assert torch.allclose(found, wanted.transpose(0, 1).reshape(len(own), 8))
        assert torch.allclose(shares, wanted_shares)


@pytest.mark.parametrize("config", SWITCHES)
def test_a_folder_keeps_every_kind(tmp_path, config):
    model = made(config).float()
    model.save(tmp_path / "m")
    loaded, report = load_model(tmp_path / "m")
    assert loaded.config == config and not report.new and not report.unused
    for one, other in zip(logits(model, SOURCES, TARGETS), logits(loaded, SOURCES, TARGETS), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention": "causal"}, "does not support attention 'causal'"),
        ({"embedding_size": 16}, "does not support embedding_size"),
        ({"decoder_start_token_id": 40}, "decoder_start_token_id is 40"),
        ({"num_decoder_layers": 0, "decoder_vocab_size": 9}, "needs a decoder"),
    ],
)
def test_settings_that_do_not_fit_are_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        replace(CONFIG, **changes)


def test_heads_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="does not support head 'mlm'"):
        build(CONFIG, "mlm")
    with pytest.raises(ConfigError, match="needs a decoder"):
        build(replace(CONFIG, num_decoder_layers=0), "seq2seq")
    with pytest.raises(ConfigError, match="an encoder is needed here"):
        Model(CONFIG, "mlm")


def test_targets_that_do_not_fit_are_refused():
    model = made()
    source = Batch.from_sequences(SOURCES)
    memory = model.encode(source).hidden
    for targets, message in (
        ([[1]] * 3, "as many non-empty sources"),
        ([[40]] * 4, "id 40"),
        ([[1] * 25] * 4, "25 tokens"),
    ):
        with pytest.raises(InputError, match=message):
            model.decode(Batch.from_sequences(targets), memory, source)
    with pytest.raises(InputError, match="padding on the right"):
        model(torch.tensor([[5, 6]]), torch.tensor([[0, 1]]), decoder_input_ids=torch.tensor([[1]]))


def test_what_was_planned_while_scoring_serves_a_step_of_training():
    model = made()
    pairs = Batch.from_sequences([[5, 6, 7], [8]]), Batch.from_sequences([[1, 5], [1]])
    with torch.inference_mode():
        model.decode(pairs[1], model.encode(pairs[0]).hidden, pairs[0])
    hidden = model.train().decode(pairs[1], model.encode(pairs[0]).hidden, pairs[0]).hidden
    hidden.sum().backward()


# -- The recurrent decoder -------------------------------------------------------------------------------------------

SMALL = {
    "vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 2, "num_decoder_layers": 2, "hidden_dropout": 0.0,
    "decoder_start_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
ATTENTION = [("none", False), ("dot", False), ("bilinear", True), ("mlp", False), ("mlp", True), ("additive", True)]
LENGTHS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=4)


def network(**changes):
    return preset("seq2seq-small", **{**SMALL, **changes})


def recurrent(seed=0, **changes):
    model = build(network(**changes), "seq2seq", seed=seed).double().eval()
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.5, generator=draws)
    assert isinstance(model, EncoderDecoder)
    return model


def pairs(lengths, seed=0):
    draws = torch.Generator().manual_seed(seed)
    sides = [[torch.randint(3, 30, (pair[side],), generator=draws).numpy() for pair in lengths] for side in (0, 1)]
    return replace(Batch.from_sequences(sides[0]), target=Batch.from_sequences(sides[1]))


def by_hand(model, batch):
    """What the decoder gives for one pair, by the formulas of the module, a token and a layer at a time."""
    writer, memory = model.decoder, model.encode(batch).hidden  # C: [source, hidden]
    cell, half = CELLS[writer.first.cell], memory.shape[1] // 2
    v = torch.cat([memory[-1, :half], memory[0, half:]])  # the forward and the backward state
    layers = [writer.first, *(writer.upper.layers if writer.upper is not None else [])]
    begun = [torch.tanh(F.linear(v, bridge.weight, bridge.bias)) for bridge in writer.bridges]
    states = [tuple(part[None] for part in state.chunk(cell.num_states)) for state in begun]

    def look(asking):
        score = writer.alignment
        if score.score == "dot":
            e = memory @ asking
        elif score.score == "bilinear":
            e = memory @ (asking @ score.W.weight)
        else:
            both = torch.cat([asking.expand(len(memory), -1), memory], dim=1)
            first = score.W_1 or score.w_a
            e = torch.tanh(both @ first.weight.T)
            e = e @ score.w_2.weight[0] if score.w_2 is not None else e[:, 0]
        return torch.softmax(e, dim=0) @ memory

    found = []
    for y in writer.embeddings.word.weight[batch.target.input_ids]:
        context = look(states[0][0][0]) if writer.feeds else None
        x = y if context is None else torch.cat([y, context])
        for number, layer in enumerate(layers):
            states[number] = cell.step(layer.weights(), x[None], states[number])
            h = states[number][0][0]
            x = h + x if number and writer.upper.residual else h
        if writer.alignment is None:
            found.append(x)
            continue
        context = look(x) if context is None else context
        found.append(torch.tanh(writer.readout.weight @ torch.cat([x, context]) + writer.readout.bias))
    return torch.stack(found)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize(("score", "feeds"), ATTENTION)
@pytest.mark.parametrize(("layers", "residual"), [(1, False), (3, True)])
def test_the_decoder_is_its_formulas(cell, score, feeds, layers, residual):
    model = recurrent(
        recurrent=cell, attention_score=score, input_feeding=feeds, num_decoder_layers=layers,
        recurrent_residual=residual,
    )  # fmt: skip
    batch = pairs([(5, 4)])
    with torch.no_grad():
        found = model.decode(batch.target, model.encode(batch).hidden, batch).hidden
        torch.testing.assert_close(found, by_hand(model, batch))


@pytest.mark.parametrize(("score", "feeds"), ATTENTION)
@settings(max_examples=10, deadline=None)
@given(lengths=LENGTHS)
def test_a_pack_gives_what_its_pairs_give_one_by_one(score, feeds, lengths):
    model, batch = recurrent(attention_score=score, input_feeding=feeds), pairs(lengths)
    wanted = {"attentions": True, "hidden_states": True}
    with torch.no_grad():
        together = model.decode(batch.target, model.encode(batch).hidden, batch, **wanted)
        parts = zip(
            batch.input_ids.split(batch.lengths), batch.target.input_ids.split(batch.target.lengths), strict=True
        )
        for number, (source, target) in enumerate(parts):
            own = Batch.from_sequences([source.numpy()])
            alone = model.decode(Batch.from_sequences([target.numpy()]), model.encode(own).hidden, own, **wanted)
            begin = sum(batch.target.lengths[:number])
            torch.testing.assert_close(together.hidden[begin : begin + len(target)], alone.hidden)
            if score == "none":
                assert together.cross_attentions is None
                continue
            torch.testing.assert_close(together.cross_attentions[0][number], alone.cross_attentions[0][0])
            assert together.cross_attentions[0][number].shape == (1, len(target), len(source))
            assert torch.allclose(alone.cross_attentions[0][0].sum(dim=-1), torch.ones(1, 1, dtype=torch.float64))
    assert len(together.hidden_states) == 3
    assert torch.equal(together.hidden_states[-1], together.hidden)


def target_logits(model, batch):
    assert batch.target is not None
    return model.mlm_logits(model.decode(batch.target, model.encode(batch).hidden, batch).hidden)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attention_score": "none"}, "input_feeding needs attention"),
        ({"num_decoder_layers": 0}, "need a recurrent encoder-decoder"),
        ({"attention_score": "cosine"}, "must be one of none, dot, bilinear, mlp, additive"),
        ({"character_width": 3}, "does not support character_width and num_decoder_layers"),
    ],
)
def test_settings_that_do_not_fit_a_recurrent_target_are_named(changes, said):
    with pytest.raises(ConfigError, match=said):
        network(**changes)


def test_texts_over_the_limit_and_empty_sources_are_refused():
    model = recurrent(max_position_embeddings=6)
    with pytest.raises(InputError, match="supports at most 6"):
        target_logits(model, pairs([(7, 3)]))
    with pytest.raises(InputError, match="supports at most 6"):
        target_logits(model, pairs([(3, 7)]))
    empty = replace(Batch.from_sequences([[4, 5], []]), target=Batch.from_sequences([[1], [1]]))
    with pytest.raises(InputError, match="non-empty sources"):
        target_logits(model, empty)


# -- Translation decoding --------------------------------------------------------------------------------------------

START, END = 1, 2
SHORT = ModelConfig(
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
PROMPTS = [[START]] * len(SOURCES)
RECURRENT = replace(
    SHORT,
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
SHORT_SWITCHES = [
    SHORT,
    replace(SHORT, norm="pre", positions="rotary"),
    replace(SHORT, positions="relative_key", relative_distance=3),
    replace(SHORT, decoder_vocab_size=11, positions="absolute"),
]


def short(config=SHORT, seed=0):
    model = build(config, "seq2seq", seed=seed)
    assert isinstance(model, EncoderDecoder)
    return model.double().eval()


def decoder(model, sources, steps):
    return target_decoder(model, Batch.from_sequences(sources), steps)


@pytest.mark.parametrize("config", [*SHORT_SWITCHES, *RECURRENT_SWITCHES])
def test_steps_give_the_numbers_of_whole_targets_also_when_rows_change_places(config):
    model = short(config)
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


def whole(model, rows):
    source, target = (Batch.from_sequences(side) for side in zip(*rows, strict=True))
    hidden = model.decode(target, model.encode(source).hidden, source).hidden
    return model.mlm_logits(hidden[target.last_tokens]).detach().float()


@pytest.mark.parametrize("config", [SHORT, *RECURRENT_SWITCHES])
def test_greedy_and_one_beam_write_the_same_and_what_stands_beside_changes_nothing(config):
    model = short(config)
    greedy = grow(decoder(model, SOURCES, 9), PROMPTS, Rules(greedy=True), max_new_tokens=9, end_ids={END})
    beam = search_beams(decoder(model, SOURCES, 9), PROMPTS, Beams(1), max_new_tokens=9, end_ids={END})
    assert [one.ids for one in greedy] == [one[0].ids for one in beam]
    for source, beside in zip(SOURCES, greedy, strict=True):
        (alone,) = grow(decoder(model, [source], 9), [[START]], Rules(greedy=True), max_new_tokens=9, end_ids={END})
        assert alone.ids == beside.ids and alone.score == pytest.approx(beside.score, abs=1e-4)


def closes(text, ids):
    """A rule: 4 comes where a 3 is open, and the end where none is."""
    depth = ids.count(3) - ids.count(4)
    return lambda token: depth == 0 if token == END else depth > 0 if token == 4 else True


def test_a_rule_gets_the_text_index_and_a_dead_end_has_no_result():
    model = short(replace(SHORT, vocab_size=200))
    sources = [np.array(one) for one in ([5, 6, 7], [9], [10, 11])]

    def allows(text, ids):
        """The first text may write 150 alone, far down in the vocabulary, the second nothing, the third anything."""
        return lambda token: (token == 150, False, True)[text]

    first, second, third = translate_ids(model, sources, Beams(2, 2), end_ids={END}, max_new_tokens=4, allows=allows)
    assert [one.ids for one in first] == [[150] * 4] and second == []
    freely = translate_ids(model, sources, Beams(2, 2), end_ids={END}, max_new_tokens=4)[2]
    assert [one.ids for one in third] == [one.ids for one in freely]


@settings(max_examples=8, deadline=None)
@given(
    st.integers(0, 2**16),
    st.sampled_from([0.0, 0.6, 1.0, -0.5]),
    st.integers(2, 4),
    st.booleans(),
    st.sampled_from([SHORT, RECURRENT_SWITCHES[-1]]),
)
def test_a_wide_beam_finds_the_best_of_all_texts(seed, penalty, longest, is_ruled, config):
    """Every text over a vocabulary of 5, of which one token ends it and one is banned, scored one by one; with a rule,
    every text that it allows: what 3 opens 4 closes.
    """
    model = short(replace(config, decoder_vocab_size=5), seed=seed)
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
    model = short()
    with torch.no_grad():
        model.head.bias[7] = 50.0
    free = grow(decoder(model, SOURCES, 4), PROMPTS, Rules(greedy=True), max_new_tokens=4)
    banned = grow(decoder(model, SOURCES, 4), PROMPTS, Rules(greedy=True), max_new_tokens=4, banned_ids={7})
    assert all(one.ids == [7] * 4 for one in free)
    assert all(7 not in one.ids and one.score < -50 for one in banned)
    beams = search_beams(decoder(model, SOURCES, 4), PROMPTS, Beams(3), max_new_tokens=4, banned_ids={7})
    assert all(7 not in one[0].ids and one[0].score < -10 for one in beams)


@pytest.mark.parametrize("config", SHORT_SWITCHES)
@pytest.mark.parametrize("num_sources", [1, 4])
def test_an_engine_writes_the_same(config, num_sources):
    model, found = short(config).float(), []
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


@pytest.mark.parametrize("config", [SHORT, *RECURRENT_SWITCHES])
def test_beams_of_one_text_change_places_without_a_copy_of_what_they_share(config):
    model = short(config)
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
        decoder(short(replace(SHORT, decoder_start_token_id=None)), SOURCES, 4)
    with pytest.raises(InputError, match="maximum of 16"):
        decoder(short(), SOURCES, 17)
