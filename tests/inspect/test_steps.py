"""The five steps of an attention layer with real numbers: each is what the one before it makes."""

from __future__ import annotations

import numpy as np
import pytest

from looked_at import SWITCHES, TEXT, network, translator
from maskwright.core.errors import ConfigError
from maskwright.inspect import hidden_states, layer_steps, read, steps_of

PLAIN = [name for name in SWITCHES if name != "Shaw"]  # whose values have vectors of distances too


@pytest.mark.parametrize("name", PLAIN)
def test_each_step_follows_from_the_one_before(name: str):
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


def test_a_layer_is_chosen_by_number_and_a_translator_shows_its_encoder():
    assert layer_steps(network("BERT"), TEXT, 2).layer == 2
    assert layer_steps(translator(), TEXT, 1).weights.shape[0] == 4
    with pytest.raises(ConfigError, match="layers 1 to 2"):
        layer_steps(network("BERT"), TEXT, 3)
