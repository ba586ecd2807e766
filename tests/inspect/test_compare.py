"""Comparison of two models: a model equals itself, with permuted heads and rotated vectors too."""

from __future__ import annotations

import numpy as np
import pytest

from inference.samples import TEXTS, tiny
from looked_at import network, translator
from maskwright.core.errors import InputError
from maskwright.inspect import compare_models
from maskwright.inspect.compare import alignment

SOME = [text for text in TEXTS if text]


def test_a_model_is_the_same_as_itself_and_unlike_another():
    model = tiny()
    same, other = compare_models(model, model, SOME), compare_models(model, tiny(seed=2), SOME)
    np.testing.assert_allclose(np.diag(same.layers), 1)
    assert same.same_place.max() == 0 and other.same_place.min() > 0.01
    assert same.layers.shape == (5, 5) and same.heads.shape == (4, 4, 4, 4) and same.num_texts == len(SOME)
    assert (other.layers >= 0).all() and (other.layers <= 1 + 1e-9).all()


def test_a_head_that_stands_elsewhere_is_found():
    """Two heads of a layer of the second model are exchanged: queries, keys and values, and what W_O reads."""
    import torch

    first, second = tiny(), tiny()
    attention = second.encoder.layers[2].attention
    size = 8
    order = torch.arange(32).view(4, size)[[1, 0, 2, 3]].reshape(-1)
    with torch.no_grad():
        rows = torch.cat([order, 32 + order, 64 + order])
        attention.qkv.weight.copy_(attention.qkv.weight[rows])
        attention.qkv.bias.copy_(attention.qkv.bias[rows])
        attention.out.weight.copy_(attention.out.weight[:, order])
    found = compare_models(first, second, SOME)
    assert found.nearest(3, 1)[:2] == (3, 2) and found.nearest(3, 2)[:2] == (3, 1)
    assert found.nearest(3, 1)[2] == pytest.approx(0, abs=1e-5) and found.same_place[2, 0] > 0.01
    np.testing.assert_allclose(np.diag(found.layers), 1, atol=1e-6)


def test_alignment_minds_neither_turn_nor_scale_nor_place_nor_width():
    rng = np.random.default_rng(3)
    one = rng.normal(size=(40, 6))
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    wide = np.concatenate([one @ turn * 3 + 5, np.zeros((40, 4))], axis=1)
    assert alignment(one, wide) == pytest.approx(1)
    assert alignment(one, rng.normal(size=(40, 6))) < 0.5


def test_networks_of_other_sizes_are_compared_by_their_nearest_heads():
    found = compare_models(tiny(), network("ALBERT"), SOME[:2])
    assert found.heads.shape == (4, 4, 3, 4) and found.layers.shape == (5, 4)
    assert len(found.to_json()["heads"]) == 16
    with pytest.raises(InputError, match="different numbers"):
        _ = found.same_place


def test_encoders_of_translators_are_compared_and_other_tokens_refused():
    assert compare_models(translator(), translator(), ["rain fell"]).same_place.max() == 0
    with pytest.raises(InputError, match="differently"):
        compare_models(tiny(), translator(), SOME)
    with pytest.raises(InputError, match="No texts"):
        compare_models(tiny(), tiny(), [])
