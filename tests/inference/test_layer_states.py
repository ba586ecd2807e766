"""Hidden states by layer: those of the encoder, and the numbers computed from them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from inference.samples import tiny
from maskwright.core.errors import InputError
from maskwright.inference.layer_states import layer_states

TEXT = "the cats sat on unbelievably long mats"


def test_the_states_are_those_of_the_model():
    model = tiny()
    found = layer_states(model, TEXT)
    batch = model.tokenizer.batch([TEXT])
    with torch.inference_mode():
        expected = model.encode(batch, hidden_states=True).hidden_states
    assert found.states.shape == (5, batch.num_tokens, 32)
    for own, theirs in zip(found.states, expected, strict=True):
        np.testing.assert_allclose(own, theirs.numpy(), atol=1e-5)


def test_numbers_of_vectors_by_hand():
    found = layer_states(tiny(), "a cat")
    wide = found.states.astype(np.float64)
    assert found.norms() == pytest.approx(np.sqrt((wide**2).sum(-1)))
    own, other = wide[3, 1], wide[2, 1]
    cosine = own @ other / np.sqrt((own @ own) * (other @ other))
    assert found.changes()[2, 1] == pytest.approx(1 - cosine)
    near = found.similarities(1)
    assert near[:, 1] == pytest.approx(1.0)
    own, other = wide[4, 2], wide[4, 1]
    assert near[4, 2] == pytest.approx(own @ other / np.sqrt((own @ own) * (other @ other)))


def test_a_token_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="Token 99 does not exist"):
        layer_states(tiny(), "a cat").similarities(99)
