"""Linear, norm, dropout, activations, feed-forward, positions, embeddings."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from maskwright.nn.embeddings import Embeddings
from maskwright.nn.layers import ACTIVATIONS, FeedForward, LayerNorm, Linear, ScalarMix, dropout
from nn.packs import draw


def filled(module, seed=0):
    """The module with every parameter drawn at a spread of 0.5."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.5, generator=generator)
    return module


# -- linear ------------------------------------------------------------------------------------------------------


def test_linear_computes_in_the_dtype_of_its_input_and_learns_in_its_own():
    layer = filled(Linear(6, 4))
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        layer.zero_grad()
        out = layer(torch.ones(3, 6, dtype=dtype))
        out.sum().backward()
        assert out.dtype == dtype
        assert layer.weight.dtype == layer.weight.grad.dtype == layer.bias.grad.dtype == torch.float32


def test_building_a_layer_draws_nothing_from_the_global_generator():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    Linear(8, 8), LayerNorm(8, 1e-12), FeedForward(8, 16, "gelu")
    assert torch.equal(before, torch.get_rng_state())


# -- norm --------------------------------------------------------------------------------------------------------


def test_norm_in_half_precision_is_accurate_far_from_zero():
    norm = LayerNorm(512, 1e-12)
    with torch.no_grad():
        norm.weight.fill_(1.0)
        norm.bias.zero_()
    x = (torch.randn(4, 512, generator=torch.Generator().manual_seed(0)) + 30).bfloat16()
    torch.testing.assert_close(norm(x).float(), norm(x.float()), rtol=0, atol=0.02)


# -- dropout -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_dropout_zeroes_that_share_and_keeps_the_expectation(probability, dtype):
    torch.manual_seed(0)
    x = torch.ones(999, 1001, dtype=dtype)  # not a multiple of four elements
    out = dropout(x, probability)
    share = float((out == 0).double().mean())
    deviation = math.sqrt(probability * (1 - probability) / x.numel())
    assert abs(share - probability) < 5 * deviation + 1 / 65536
    kept = out[out != 0]
    assert float(kept.double().std()) < 1e-6 * float(kept[0]) + 1e-12
    assert out.dtype == dtype and float(kept[0]) == pytest.approx(1 / (1 - probability), rel=5e-3)


def test_dropout_passes_gradients_exactly_where_it_passed_values():
    torch.manual_seed(0)
    x = torch.ones(50, 7, requires_grad=True)
    out = dropout(x, 0.4)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())


def test_dropout_repeats_with_the_seed_and_moves_on_without_it():
    x = torch.ones(64)
    torch.manual_seed(5)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    torch.manual_seed(5)
    assert torch.equal(dropout(x, 0.5), first)
    assert not torch.equal(first, second)


def test_dropped_neighbors_are_independent():
    torch.manual_seed(3)
    dropped = (dropout(torch.ones(400_000), 0.5) == 0).double() - 0.5
    for lag in range(1, 9):  # four elements share one draw of 64 bits
        correlation = float((dropped[lag:] * dropped[:-lag]).mean()) / 0.25
        assert abs(correlation) < 5 / math.sqrt(400_000)


# -- feed-forward and activations --------------------------------------------------------------------------------


def test_feed_forward_of_the_original_transformer():
    ffn = filled(FeedForward(512, 2048, "relu"))
    assert ffn.up.weight.shape == (2048, 512) and ffn.down.weight.shape == (512, 2048)
    x = torch.randn(2, 512, generator=torch.Generator().manual_seed(0))
    inner = torch.clamp(x @ ffn.up.weight.T + ffn.up.bias, min=0)
    torch.testing.assert_close(ffn(x), inner @ ffn.down.weight.T + ffn.down.bias, rtol=1e-4, atol=1e-3)


def test_activations_follow_their_formulas():
    x = torch.linspace(-6, 6, 101, dtype=torch.float64)
    phi = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    tanh = 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    torch.testing.assert_close(ACTIVATIONS["gelu"](x), x * phi)
    torch.testing.assert_close(ACTIVATIONS["gelu_new"](x), tanh)
    torch.testing.assert_close(ACTIVATIONS["silu"](x), x / (1 + torch.exp(-x)))


# -- positions ---------------------------------------------------------------------------------------------------


# -- embeddings --------------------------------------------------------------------------------------------------


def embeddings():
    return filled(
        Embeddings(
            20,
            8,
            max_position_embeddings=10,
            type_vocab_size=2,
            layer_norm_eps=1e-12,
            hidden_dropout=0.0,
            pad_token_id=0,
        )
    )


IDS, PLACES, TYPES = torch.tensor([3, 4, 5, 6]), torch.arange(4), torch.tensor([0, 0, 1, 1])


def test_the_input_is_the_sum_of_three_tables():
    e = embeddings()
    total = e.word.weight[IDS] + e.position.weight[PLACES] + e.token_type.weight[TYPES]
    expected = F.layer_norm(total, (8,), e.norm.weight, e.norm.bias, 1e-12)
    torch.testing.assert_close(e(IDS, PLACES, TYPES, torch.float32), expected)


def test_the_padding_row_gets_no_gradient_from_look_ups():
    e = embeddings()
    e(torch.tensor([0, 3]), torch.arange(2), None, torch.float32).square().sum().backward()
    assert not e.word.weight.grad[0].any() and e.word.weight.grad[3].any()


# -- The learned mix of layers: its extremes, its beginning, its gradient ---------------------------------------------

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
