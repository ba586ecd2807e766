"""Attention as it is shown: weights, heads that are searched, steps of a layer, rollout and flow."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from drawn_networks import configs
from inference.samples import tiny
from looked_at import SWITCHES, TEXT, network, translator
from maskwright.core.errors import ConfigError, InputError
from maskwright.inference.engine.engine import Engine
from maskwright.inspect import (
    PATTERNS,
    AttentionMap,
    attention,
    find_heads,
    find_word_heads,
    flow,
    head_moves,
    hidden_states,
    look,
    patterns_of,
    query_key,
    read,
    rollout,
    steps_of,
)
from maskwright.inspect.attention import attends
from maskwright.inspect.flow import mixed
from maskwright.models.build import build
from maskwright.nn import attention as executors
from maskwright.text.tokenizers.tokenizer import Tokenizer
from models.recurrent_models import model as recurrent


@pytest.mark.parametrize("name", SWITCHES)
def test_every_row_of_every_head_sums_to_one(name):
    model = network(name)
    found = attention(model, TEXT).main
    layers = model.config.num_hidden_layers
    assert found.weights.shape == (layers, 4, len(found.queries), len(found.keys))
    assert found.weights.dtype == np.float32 and (found.weights >= 0).all()
    np.testing.assert_allclose(found.weights.sum(axis=-1), 1, atol=1e-5)
    if found.is_causal:
        assert (np.triu(found.weights, 1) == 0).all()


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("length", [8, 300])
def test_inspection_changes_no_output_of_the_explicit_the_fused_or_the_engine_path(monkeypatch, name, length):
    """300 tokens are above the length from which the fused kernel is taken; of 8 it is taken by force."""
    model = network(name)
    reading = read(model, " ".join((TEXT.split() * 60)[:length]))
    with torch.inference_mode():
        shown = reading.run()[0].hidden
        monkeypatch.setattr(executors, "FUSED_FROM", 1)
        fused = model.encode(reading.batch()).hidden
        model.engine = Engine()
        by_engine = model.encode(reading.batch()).hidden
    assert torch.allclose(shown, fused, atol=2e-4) and torch.allclose(shown, by_engine, atol=2e-4)


@pytest.mark.parametrize("name", [name for name in SWITCHES if name != "BigBird"])
def test_weights_are_the_softmax_of_the_scores_that_are_shown(name):
    found = query_key(network(name), TEXT)
    scores = torch.from_numpy(found.scores)
    scores[torch.from_numpy(found.map.weights == 0)] = -torch.inf  # hidden tokens
    np.testing.assert_allclose(torch.softmax(scores, dim=-1).numpy(), found.map.weights, atol=2e-5)
    products = found.products(2, 3, 1)
    extra = 0 if found.position is None else found.position[1, 2, 1]
    np.testing.assert_allclose(products.sum(axis=1) * found.scale + extra, found.scores[1, 2, 1], atol=1e-4)


@settings(max_examples=25)
@given(configs)
def test_any_network_can_be_looked_at(config):
    """Of whatever switches: rows sum to 1, and weights times values, through W_O, are what the layer gives."""
    model = build(config, None, seed=1).eval()
    model.tokenizer = _small(config.vocab_size)
    found = query_key(model, "a b c d e f")
    np.testing.assert_allclose(found.map.weights.sum(axis=-1), 1, atol=1e-5)
    assert found.query.shape[:2] == found.map.weights.shape[:2] and np.isfinite(found.scores).all()


def _small(size):
    made = Tokenizer.train_from_iterator(iter(["a b c d e f g"] * 2), kind="word", vocab_size=size)
    assert len(made) <= size
    return made


def test_the_three_kinds_of_an_encoder_decoder_and_where_their_parts_come_from():
    model = translator()
    seen = attention(model, TEXT, target="rain fell")
    assert [one.kind for one in seen.maps] == ["encoder", "decoder", "cross"] and seen.is_given
    encoder, decoder, cross = seen.maps
    assert encoder.weights.shape[0] == 2 and decoder.weights.shape[0] == cross.weights.shape[0] == 3
    assert cross.queries is decoder.queries and cross.keys is encoder.keys
    assert (np.triu(decoder.weights, 1) == 0).all()
    assert (
        "K and V come from the encoder output" in cross.source
        and "Q, K and V all come from the target" in decoder.source
    )
    for one in seen.maps:
        np.testing.assert_allclose(one.weights.sum(axis=-1), 1, atol=1e-5)


def test_cross_attention_is_that_of_the_padded_call():
    model = translator()
    reading = read(model, TEXT, target="rain fell")
    assert reading.target is not None
    out = model(
        input_ids=torch.tensor([reading.source.ids]),
        decoder_input_ids=torch.tensor([reading.target.ids]),
        output_attentions=True,
    )
    shown = attention(model, TEXT, target="rain fell").of("cross").weights
    np.testing.assert_allclose(shown, torch.stack(out.cross_attentions)[:, 0].detach().numpy(), atol=1e-6)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_queries_and_keys_of_a_translator_make_its_weights(kind):
    found = query_key(translator(), TEXT, kind, target="rain fell")
    scores = torch.from_numpy(found.scores)
    scores[torch.from_numpy(found.map.weights == 0)] = -torch.inf
    np.testing.assert_allclose(torch.softmax(scores, dim=-1).numpy(), found.map.weights, atol=2e-5)


def test_a_translator_writes_its_own_target_and_scores_highest_what_it_wrote():
    model = translator()
    reading = read(model, TEXT)
    assert reading.target is not None and not reading.is_given
    with torch.inference_mode():
        decoded = reading.run()[1]
        assert decoded is not None
        best = model.mlm_logits(decoded.hidden).argmax(dim=-1).tolist()
    assert best[: len(reading.target) - 1] == list(reading.target.ids[1:])


def test_long_texts_are_truncated_and_reported(capsys):
    seen = attention(tiny(), " ".join(["cat"] * 100))
    assert len(seen.main.keys) == 48 and "truncated to 48 tokens (54 tokens removed)" in capsys.readouterr().err


def test_what_cannot_be_looked_at_is_refused_in_a_sentence():
    with pytest.raises(InputError, match="target requires"):
        attention(tiny(), TEXT, target="x")
    with pytest.raises(InputError, match="reads a single text"):
        attention(translator(), (TEXT, TEXT))


def test_a_recurrent_translator_shows_what_its_decoder_looks_at():
    model = recurrent("seq2seq-small", "seq2seq", vocab_size=300)
    model.tokenizer = translator().tokenizer
    model.config = replace(model.config, decoder_start_token_id=0)
    reading = read(model, TEXT, target="rain fell")
    (found,) = attention(model, TEXT, target="rain fell").maps
    assert found.kind == "cross" and attends(model)
    with torch.inference_mode():
        memory = model.encode(reading.batch()).hidden
        decoded = model.decode(reading.target_batch(), memory, reading.batch(), attentions=True)
    np.testing.assert_allclose(found.weights[0], decoded.cross_attentions[0][0].numpy(), atol=1e-6)
    np.testing.assert_allclose(found.weights.sum(axis=-1), 1, atol=1e-5)
    shown = look(model, TEXT, target="rain fell")
    assert shown.predictions is not None and shown.predictions.by_layer is None and shown.steps == ()
    with pytest.raises(InputError, match="queries and keys"):
        query_key(model, TEXT, target="rain fell")


@pytest.mark.parametrize("name", ["lstm-small", "bilstm-small", "bag-small"])
def test_a_network_that_attends_to_nothing_says_so(name):
    model = recurrent(name, None, vocab_size=300, **({"num_hidden_layers": 0} if name == "bag-small" else {}))
    model.tokenizer = network("BERT").tokenizer
    assert not attends(model)
    with pytest.raises(InputError, match="no attention weights.*probe"):
        attention(model, TEXT)


# -- Search for heads ------------------------------------------------------------------------------------------------

PAIR = ("the cat , the mat", "dogs and unbelievably long cats")


def evenly(map):
    visible = np.tri(len(map.queries)) if map.is_causal else np.ones(map.weights.shape[2:])
    rows = (visible / visible.sum(axis=1, keepdims=True)).astype(np.float32)
    return replace(map, weights=np.broadcast_to(rows, map.weights.shape).copy())


@pytest.mark.parametrize("pattern", [name for name in PATTERNS if name != "diagonal"])
def test_a_planted_head_is_found_and_all_others_stay_at_even(pattern):
    map = evenly(attention(tiny(), PAIR).main)
    looks = planted(pattern, map)
    asked = looks.any(axis=1)
    map.weights[2, 1, asked] = looks[asked] / looks[asked].sum(axis=1, keepdims=True)
    found = find_heads(map, pattern)
    assert (found.heads[0].layer, found.heads[0].head) == (3, 2)
    assert found.heads[0].score == pytest.approx(1, abs=1e-6) and found.num_tokens == asked.sum()
    for head in found.heads[1:]:
        assert head.score == pytest.approx(head.even, abs=1e-6)
    assert 0 < found.heads[0].even < 1 and len(found.heads) == 16


def planted(pattern, map):
    """bool [tokens, tokens], by a plain walk over all pairs of tokens."""
    t, count = map.queries, len(map.queries)
    looks = np.zeros((count, count), dtype=bool)
    for i in range(count):
        for j in range(count):
            own, other = (t.texts[i], t.words[i]), (t.texts[j], t.words[j])
            looks[i, j] = {
                "previous token": j == i - 1,
                "next token": j == i + 1,
                "same token": i != j and t.ids[i] == t.ids[j],
                "same word": i != j and own == other and None not in own,
                "first token": j == 0 and i > 0,
                "separator": t.subwords[j] == "[SEP]",
                "itself": i == j,
                "punctuation": t.subwords[j] in ",.!",
                "other text": t.texts[j] is not None and t.texts[i] is not None and t.texts[i] != t.texts[j],
            }[pattern] and t.texts[i] is not None
    return looks


def test_from_word_to_word_counts_all_pieces_of_both():
    map = attention(tiny(), "unbelievably long cats").main
    (rows,), (columns,) = map.queries.find("unbelievably"), map.keys.find("cats")
    found = find_word_heads(map, "unbelievably", "cats")
    expected = map.weights[:, :, rows][..., columns].sum(axis=-1).mean(axis=-1)
    np.testing.assert_allclose(found.scores, expected, atol=1e-6)
    assert len(rows) > 1 and found.pattern == "unbelievably -> cats"
    assert [one.score for one in found.heads] == sorted((one.score for one in found.heads), reverse=True)
    assert found.to_json(2)["heads"][0]["score"] == found.heads[0].score


def test_a_causal_model_has_no_attention_to_later_tokens():
    map = attention(network("GPT-2"), TEXT).main
    names = [found.pattern for found in patterns_of(map)]
    assert "previous token" in names and "next token" not in names
    for found in patterns_of(evenly(map)):
        assert found.heads[0].score == pytest.approx(found.heads[0].even, abs=1e-6)
    with pytest.raises(InputError, match="applies to no token"):
        find_heads(map, "next token")


def test_wrong_names_and_words_are_refused():
    map = attention(tiny(), TEXT).main
    with pytest.raises(ConfigError, match="attention pattern"):
        find_heads(map, "previus token")
    with pytest.raises(InputError, match="'tree' is not in"):
        find_word_heads(map, "cat", "tree")


# -- what moves ------------------------------------------------------------------------------------------------------


def test_the_head_that_was_moved_moves_most_and_says_where():
    """In the second text one head of `cat` attends to `mat` instead of `sat`."""
    first = evenly(attention(tiny(), "the cat sat on the mat").main)
    second = evenly(attention(tiny(), "the cat sat in the mat").main)
    cat, sat, mat = (first.queries.find(word)[0][0] for word in ("cat", "sat", "mat"))
    for map, place in ((first, sat), (second, mat)):
        map.weights[1, 3, cat] = 0
        map.weights[1, 3, cat, place] = 1
    found = head_moves(first, second, "cat")
    best = found.moves[0]
    assert (best.layer, best.head) == (2, 4) and best.distance == pytest.approx(1)
    assert {(one.label, one.before, one.after) for one in best.shifts[:2]} == {("sat", 1, 0), ("mat", 0, 1)}
    assert all(move.distance == pytest.approx(0, abs=1e-6) for move in found.moves[1:])
    assert found.to_json(1)["heads"][0]["shifts"][0]["token"] in ("sat", "mat")


# -- The five steps of an attention layer with real numbers ----------------------------------------------------------

PLAIN = [name for name in SWITCHES if name != "Shaw"]  # whose values have vectors of distances too


@pytest.mark.parametrize("name", PLAIN)
def test_each_step_follows_from_the_one_before(name):
    model = network(name)
    for layer, found in zip(model.encoder.in_order, steps_of(read(model, TEXT)), strict=True):
        weight, bias = (layer.attention.qkv.weight, layer.attention.qkv.bias)
        projected = found.inputs @ weight.detach().numpy().T + (0 if bias is None else bias.detach().numpy())
        values = projected[:, 64:].reshape(len(found.tokens), 4, 8).transpose(1, 0, 2)
        np.testing.assert_allclose(found.value, values, atol=1e-4)
        np.testing.assert_allclose(found.contexts, found.weights @ found.value, atol=1e-4)
        np.testing.assert_allclose(found.joined, np.concatenate(list(found.contexts), axis=1), atol=1e-6)
        out = layer.attention.out
        np.testing.assert_allclose(
            found.output, found.joined @ out.weight.detach().numpy().T + out.bias.detach().numpy(), atol=1e-4
        )


def test_the_first_step_is_what_the_layer_is_given():
    model = network("BERT")
    states = hidden_states(model, TEXT).vectors
    for number, found in enumerate(steps_of(read(model, TEXT))):
        np.testing.assert_allclose(found.inputs, states[number], atol=1e-6)
        assert [step.values.shape for step in found.five] == [(9, 32), (3, 4, 9, 8), (4, 9, 8), (9, 32), (9, 32)]


# -- Rollout and flow ------------------------------------------------------------------------------------------------

TOKENS = attention(tiny(), "cat").main.queries  # three tokens


def map_of(weights):
    layers = tuple(range(1, len(weights) + 1))
    return AttentionMap("self", TOKENS, TOKENS, weights[:, None].astype(np.float32), layers, (1,))


def drawn(layers, seed):
    weights = np.random.default_rng(seed).dirichlet([0.5] * 3, size=(layers, 3))
    return map_of(weights)


def test_rollout_by_hand():
    """Two layers of W = [[0, 1, 0], [0, 0, 1], [0, 0, 1]], mixed half with the identity."""
    one = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 1]])
    found = rollout(map_of(np.stack([one, one])))
    np.testing.assert_allclose(found[0], [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]])
    np.testing.assert_allclose(found[1], [[0.25, 0.5, 0.25], [0, 0.25, 0.75], [0, 0, 1]])


def test_flow_by_hand():
    """The same network: from token 0 two pipes of a half leave; token 1 of the input gets a half over each way."""
    one = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 1]])
    found = flow(map_of(np.stack([one, one])))
    np.testing.assert_allclose(found, [[0.5, 1.0, 0.5], [0, 0.5, 1.0], [0, 0, 1]], atol=1e-8)


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(0, 1000))
def test_a_flow_is_that_of_a_linear_program(layers, seed):
    map = drawn(layers, seed)
    found, graphs = flow(map), mixed(map)
    for top in range(3):
        for sink in range(3):
            assert found[top, sink] == pytest.approx(by_program(graphs, top, sink), abs=1e-6)


def by_program(graphs, top, sink):
    """The most that reaches `sink`: variables are the pipes, what enters a node in between leaves it."""
    layers = len(graphs)
    pipes = [(layer, i, j) for layer in range(layers) for i in range(3) for j in range(3)]
    bounds = [(0, graphs[pipe] if pipe[0] < layers - 1 or pipe[1] == top else 0) for pipe in pipes]
    kept = [
        [(1 if (p[0], p[1]) == (layer, node) else -1 if (p[0], p[2]) == (layer + 1, node) else 0) for p in pipes]
        for layer in range(layers - 1)
        for node in range(3)
    ]
    gain = [-1 if pipe[0] == 0 and pipe[2] == sink else 0 for pipe in pipes]
    solved = linprog(gain, A_eq=kept or None, b_eq=[0] * len(kept) if kept else None, bounds=bounds)
    return float(-solved.fun)


def test_without_a_residual_rollout_is_the_product_of_the_mean_weights():
    map = attention(tiny(), TEXT).main
    means = map.weights.astype(np.float64).mean(axis=1)
    expected = means[3] @ means[2] @ means[1] @ means[0]
    np.testing.assert_allclose(rollout(map, residual=0)[-1], expected, atol=1e-6)


def test_what_has_no_flow_is_refused_in_a_sentence():
    with pytest.raises(InputError, match="require self-attention"):
        rollout(attention(translator(), TEXT, target="rain").of("cross"))
    with pytest.raises(ConfigError, match="below 1"):
        rollout(drawn(1, 1), residual=1)
    long = attention(network("BERT"), " ".join(["cat"] * 100)).main
    with pytest.raises(InputError, match="choose a token"):
        flow(long)
    assert flow(long.select([1]), [5]).shape == (1, len(long.keys))
