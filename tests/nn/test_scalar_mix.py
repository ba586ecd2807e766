"""The learned mix of layers: its extremes, its beginning, its gradient."""

from __future__ import annotations

import pytest
import torch

from maskwright.nn.layers import ScalarMix
from nn.packs import draw

LAYERS = [draw(5, 3, seed=number) for number in range(4)]


@pytest.mark.parametrize("chosen", range(4))
def test_weights_that_are_all_on_one_layer_give_that_layer(chosen: int):
    mix = ScalarMix(4).double()
    with torch.no_grad():
        mix.weights.fill_(-1e9)
        mix.weights[chosen] = 0.0
    assert torch.equal(mix(LAYERS), LAYERS[chosen])
    with torch.no_grad():
        mix.scale.fill_(2.5)
    assert torch.equal(mix(LAYERS), 2.5 * LAYERS[chosen])


def test_the_gradient_is_that_of_finite_differences():
    def mixed(weights, scale, *layers):
        return torch.func.functional_call(ScalarMix(4).double(), {"weights": weights, "scale": scale}, (layers,))

    given = [draw(4, seed=9), torch.tensor(1.5, dtype=torch.float64), *LAYERS]
    assert torch.autograd.gradcheck(mixed, [tensor.clone().requires_grad_() for tensor in given])
