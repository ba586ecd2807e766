"""Hidden states by layer, nearest neighbors in context, maps, and predictions at a position."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from inference.samples import TEXTS, tiny
from looked_at import SWITCHES, TEXT, network, translator
from maskwright.core.errors import ConfigError, InputError
from maskwright.inference.embed import TextEncoder
from maskwright.inference.fill_mask import MaskFiller
from maskwright.inspect import hidden_states, neighbors, predictions, read, states_of, word_map
from maskwright.inspect.states import plane

MASKED = "the cat [MASK] on the [MASK] ."


@pytest.mark.parametrize("name", SWITCHES)
def test_states_are_the_layers_of_the_network(name: str):
    model = network(name)
    found = hidden_states(model, TEXT)
    assert found.vectors.shape == (model.config.num_hidden_layers + 1, len(found.tokens), model.config.hidden_size)
    with torch.no_grad():
        last = model.encode(read(model, TEXT).batch()).hidden.numpy()
    np.testing.assert_allclose(found.vectors[-1], last, atol=1e-4)
    assert found.steps.shape == (model.config.num_hidden_layers, len(found.tokens))


def test_layers_are_named_as_embed_names_them():
    model = tiny()
    found = hidden_states(model, TEXT)
    (expected,) = TextEncoder(model, "concat-last-4", pooling="none").token_vectors([TEXT])
    np.testing.assert_allclose(found.of("concat-last-4"), expected.vectors, atol=1e-4)
    np.testing.assert_allclose(found.of(-1), found.vectors[-1])
    np.testing.assert_allclose(np.diag(found.similarities(2)), 1)
    with pytest.raises(ConfigError, match="is out of range"):
        found.of(9)


def test_both_sides_of_a_translator_have_states():
    reading = read(translator(), TEXT, target="rain fell")
    source, target = states_of(reading), states_of(reading, "decoder")
    assert source.vectors.shape[:2] == (3, len(reading.source))
    assert reading.target is not None and target.vectors.shape[:2] == (4, len(reading.target))
    with pytest.raises(InputError, match="no decoder"):
        states_of(read(tiny(), TEXT), "decoder")


def test_the_nearest_neighbor_of_a_word_is_itself_in_the_same_sentence():
    others = [TEXTS[1], TEXT, TEXTS[4]]
    found = neighbors(tiny(), TEXT, "cat", others, top=30)
    assert (found[0].word, found[0].text) == ("cat", 1) and found[0].cosine == pytest.approx(1)
    assert TEXT[found[0].start : found[0].end] == "cat"
    assert [one.cosine for one in found] == sorted((one.cosine for one in found), reverse=True)
    assert len(found) == sum(len(text.split()) for text in others)
    with pytest.raises(InputError, match="'tree' is not in"):
        neighbors(tiny(), TEXT, "tree", others)


def test_a_map_keeps_distances_that_lie_in_a_plane_and_is_the_same_each_time():
    rng = np.random.default_rng(1)
    flat = rng.normal(size=(7, 2))
    turned = flat @ np.linalg.qr(rng.normal(size=(20, 2)))[0].T + 3
    places, shares = plane(turned)
    distances = [np.linalg.norm(rows[:, None] - rows, axis=-1) for rows in (flat, places)]
    np.testing.assert_allclose(*distances, atol=1e-9)
    assert sum(shares) == pytest.approx(1) and shares[0] >= shares[1]
    np.testing.assert_array_equal(places, plane(turned)[0])


def test_a_map_of_a_word_holds_every_place_where_it_stands():
    found = word_map(tiny(), [TEXT, "the cat and the cat", "rain fell"], "cat")
    assert found.texts == (0, 1, 1) and found.places.shape == (3, 2)
    assert len(word_map(tiny(), [TEXT, "rain fell"]).words) == 9
    assert found.to_json()["words"][2]["start"] == 16
    with pytest.raises(InputError, match="three occurrences of 'rain'"):
        word_map(tiny(), [TEXT, "rain fell"], "rain")


# -- predictions -----------------------------------------------------------------------------------------------------


def test_predictions_for_masks_are_those_of_fill_mask():
    model = tiny("mlm")
    found, filler = predictions(model, MASKED), MaskFiller(model)
    np.testing.assert_allclose(found.probabilities, filler.probabilities(MASKED), atol=1e-6)
    for number, mask in enumerate(filler.fill([MASKED], top_k=4)[0].masks):
        assert [(one.token, one.rank) for one in found.top(number, 4)] == [
            (candidate.token_str, candidate.rank) for candidate in mask.candidates
        ]
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1)
    assert found.by_layer is not None and found.by_layer.shape == (5, *found.probabilities.shape)
    np.testing.assert_allclose(found.by_layer[-1], found.probabilities, atol=1e-6)


def test_the_whole_vocabulary_can_be_searched():
    found = predictions(tiny("mlm"), MASKED)
    hits = found.search("CA", 1, count=1000)
    assert {one.token for one in hits} == {token for token in found.vocabulary if "ca" in token.lower()}
    everything = found.search("", 1, count=10_000)
    assert [one.rank for one in everything] == list(range(1, len(found.vocabulary) + 1))
    assert sum(one.probability for one in everything) == pytest.approx(1)


def test_a_causal_model_and_a_decoder_predict_after_every_token():
    config = network("GPT-2").config
    from maskwright.models.build import build

    model = build(config, "clm", seed=2).eval()
    model.tokenizer = network("GPT-2").tokenizer
    found = predictions(model, TEXT, layers=False)
    assert found.places == tuple(range(len(found.tokens))) and found.by_layer is None
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([found.tokens.ids])).logits[0]
    np.testing.assert_allclose(found.probabilities, logits.double().softmax(-1).numpy(), atol=1e-5)
    written = predictions(translator(), TEXT)
    assert [written.top(place, 1)[0].id for place in range(len(written.tokens) - 1)] == list(written.tokens.ids[1:])


def test_a_model_without_token_predictions_is_rejected():
    with pytest.raises(InputError, match="masked or causal language model"):
        predictions(tiny(), MASKED)
    with pytest.raises(InputError, match=r"has no \[MASK\]"):
        predictions(tiny("mlm"), TEXT)
    with pytest.raises(InputError, match="no position 2"):
        predictions(tiny("mlm"), MASKED).top(2)
