"""Attention as it is shown: the weights of every architecture, and that showing them changes no output."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from drawn_networks import configs
from inference.samples import tiny
from looked_at import SWITCHES, TEXT, network, translator
from maskwright.core.errors import ConfigError, InputError
from maskwright.inference.engine.engine import Engine
from maskwright.inspect import attention, look, query_key, read
from maskwright.inspect.attention import attends
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.nn import attention as executors
from maskwright.text.tokenizers.tokenizer import Tokenizer
from models.recurrent_models import model as recurrent


@pytest.mark.parametrize("name", SWITCHES)
def test_every_row_of_every_head_sums_to_one(name: str):
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
def test_inspection_changes_no_output_of_the_explicit_the_fused_or_the_engine_path(
    monkeypatch: pytest.MonkeyPatch, name: str, length: int
):
    """300 tokens are above the length from which the fused kernel is taken; of 8 it is taken by force."""
    model = network(name)
    reading = read(model, " ".join((TEXT.split() * 60)[:length]))
    with torch.inference_mode():
        shown = reading.run()[0].hidden
        monkeypatch.setattr(executors, "FUSED_FROM", 1)
        fused = model.encode(reading.batch()).hidden
        model.engine = Engine()
        by_engine = model.encode(reading.batch()).hidden
    assert torch.allclose(shown, fused, atol=2e-4)
    assert torch.allclose(shown, by_engine, atol=2e-4)


@pytest.mark.parametrize("name", [name for name in SWITCHES if name != "BigBird"])
def test_weights_are_the_softmax_of_the_scores_that_are_shown(name: str):
    found = query_key(network(name), TEXT)
    scores = torch.from_numpy(found.scores)
    scores[torch.from_numpy(found.map.weights == 0)] = -torch.inf  # hidden tokens
    np.testing.assert_allclose(torch.softmax(scores, dim=-1).numpy(), found.map.weights, atol=2e-5)
    products = found.products(2, 3, 1)
    extra = 0 if found.position is None else found.position[1, 2, 1]
    np.testing.assert_allclose(products.sum(axis=1) * found.scale + extra, found.scores[1, 2, 1], atol=1e-4)


@settings(max_examples=25)
@given(configs)
def test_any_network_can_be_looked_at(config: ModelConfig):
    """Of whatever switches: rows sum to 1, and weights times values, through W_O, are what the layer gives."""
    model = build(config, None, seed=1).eval()
    model.tokenizer = _small(config.vocab_size)
    found = query_key(model, "a b c d e f")
    np.testing.assert_allclose(found.map.weights.sum(axis=-1), 1, atol=1e-5)
    assert found.query.shape[:2] == found.map.weights.shape[:2] and np.isfinite(found.scores).all()


def _small(size: int) -> Tokenizer:
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
def test_queries_and_keys_of_a_translator_make_its_weights(kind: str):
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


def test_layers_and_heads_are_chosen_by_number():
    seen = attention(tiny(), TEXT)
    some = seen.select([4, 1], [2])
    assert some.main.layers == (4, 1) and some.main.weights.shape[:2] == (2, 1)
    np.testing.assert_array_equal(some.main.of(4, 2), seen.main.weights[3, 1])
    for wrong in ({"layers": [5]}, {"heads": [0]}):
        with pytest.raises(ConfigError, match="1 to 4"):
            seen.select(**wrong)
    with pytest.raises(ConfigError, match="kind of attention"):
        seen.of("cross")


def test_words_are_found_with_all_their_pieces_and_special_tokens_by_name():
    tokens = attention(tiny(), "unbelievably dogs and dogs").main.keys
    first, second = tokens.find("dogs")
    assert "".join(tokens.subwords[index].removeprefix("##") for index in first) == "dogs" and second > first
    pieces = tokens.find("unbelievably")[0]
    assert "".join(tokens.subwords[index].removeprefix("##") for index in pieces) == "unbelievably"
    assert tokens.find("[CLS]") == [[0]]
    with pytest.raises(InputError, match="'tree' is not in"):
        tokens.find("tree")


def test_long_texts_are_truncated_and_reported(capsys: pytest.CaptureFixture[str]):
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
def test_a_network_that_attends_to_nothing_says_so(name: str):
    model = recurrent(name, None, vocab_size=300, **({"num_hidden_layers": 0} if name == "bag-small" else {}))
    model.tokenizer = network("BERT").tokenizer
    assert not attends(model)
    with pytest.raises(InputError, match="no attention weights.*probe"):
        attention(model, TEXT)
