"""Linear, norm, dropout, activations, feed-forward, positions, embeddings, and the spread of scores."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError
from maskwright.lessons.parts import softmax_slope
from maskwright.nn.attention import attend
from maskwright.nn.embeddings import Embeddings
from maskwright.nn.layers import ACTIVATIONS, FeedForward, LayerNorm, Linear, ScalarMix, dropout
from maskwright.nn.positions import (
    binary_positions,
    integer_positions,
    normalized_positions,
    rotary_angles,
    rotate,
    rotate_query_key,
    sinusoidal_positions,
)
from nn.packs import draw, runs_of


def filled(module, seed=0):
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
def test_weights_that_are_all_on_one_layer_give_that_layer(chosen):
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


# -- Sinusoidal positions --------------------------------------------------------------------------------------------


@given(st.integers(1, 400), st.integers(1, 70), st.data())
def test_every_entry_is_the_formula(num_positions, size, data):
    table = sinusoidal_positions(num_positions, size)
    position = data.draw(st.integers(0, num_positions - 1))
    column = data.draw(st.integers(0, size - 1))
    angle = position / 10000 ** (2 * (column // 2) / size)
    expected = math.cos(angle) if column % 2 else math.sin(angle)
    assert float(table[position, column]) == pytest.approx(expected, abs=1e-7)


def test_a_step_of_k_turns_every_pair_by_the_same_angle_wherever_it_begins():
    # Vaswani et al. 2017, section 3.5: PE(pos + k) is a linear function of PE(pos).
    table = sinusoidal_positions(300, 64).double()
    step = 17
    angles = step / 10000 ** (torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    sine, cosine = table[:-step, 0::2], table[:-step, 1::2]
    moved = torch.stack((sine * angles.cos() + cosine * angles.sin(), cosine * angles.cos() - sine * angles.sin()), -1)
    torch.testing.assert_close(moved.flatten(-2), table[step:], rtol=0, atol=1e-6)


def test_far_positions_are_exact():
    table = sinusoidal_positions(100_001, 4)
    assert float(table[100_000, 0]) == pytest.approx(math.sin(100_000), abs=1e-7)


def test_the_table_is_that_of_distilbert():
    modeling = pytest.importorskip("transformers.models.distilbert.modeling_distilbert")
    published = torch.empty(128, 32)
    modeling.create_sinusoidal_embeddings(128, 32, published)
    torch.testing.assert_close(sinusoidal_positions(128, 32), published, rtol=0, atol=1e-6)


def test_simple_positions_are_what_their_names_say():
    assert integer_positions(4)[:, 0].tolist() == [0, 1, 2, 3]
    assert normalized_positions(5)[:, 0].tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert normalized_positions(1).tolist() == [[0.0]] and binary_positions(1).tolist() == [[0.0]]
    table = binary_positions(16)
    assert [int("".join(str(int(bit)) for bit in row), 2) for row in table] == list(range(16))
    assert table.diff(dim=0).abs().sum(dim=0).tolist() == [1, 3, 7, 15]


# -- Rotary positions: distances are all that attention sees, and the numbers are those of published models -----------


def turned(qkv, heads, position_ids, theta=10_000.0):
    cosine, sine = rotary_angles(position_ids, qkv.shape[1] // (3 * heads), theta, qkv.dtype)
    return rotate_query_key(qkv, heads, cosine, sine)


@given(st.integers(0, 5000), st.sampled_from([2, 6, 16]), st.sampled_from([10_000.0, 160_000.0]))
def test_each_pair_turns_by_its_angle(position, head_dim, theta):
    x = draw(1, head_dim)
    cosine, sine = rotary_angles(torch.tensor([position]), head_dim, theta, torch.float64)
    result = rotate(x, cosine, sine)
    for pair in range(head_dim // 2):
        number = complex(float(x[0, pair]), float(x[0, pair + head_dim // 2]))
        angle = position * theta ** (-2 * pair / head_dim)
        expected = number * complex(math.cos(angle), math.sin(angle))
        assert float(result[0, pair]) == pytest.approx(expected.real, abs=1e-9)
        assert float(result[0, pair + head_dim // 2]) == pytest.approx(expected.imag, abs=1e-9)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 3000))
def test_shifting_all_positions_changes_nothing(lengths, shift):
    qkv = draw(sum(lengths), 3 * 16)
    places = torch.cat([torch.arange(length) for length in lengths])
    here, weights = attend(turned(qkv, 2, places), runs_of(lengths), 2, want_weights=True)
    there, shifted = attend(turned(qkv, 2, places + shift), runs_of(lengths), 2, want_weights=True)
    torch.testing.assert_close(here, there, rtol=0, atol=1e-9)
    for one, other in zip(weights, shifted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def test_an_odd_head_and_a_base_of_zero_are_refused():
    with pytest.raises(ConfigError, match="even"):
        rotary_angles(torch.arange(3), 5)
    with pytest.raises(ConfigError, match="above 0"):
        rotary_angles(torch.arange(3), 4, 0.0)


@pytest.mark.parametrize("theta", [10_000.0, 160_000.0])
def test_the_numbers_are_those_of_modernbert(theta):
    transformers = pytest.importorskip("transformers")
    modeling = pytest.importorskip("transformers.models.modernbert.modeling_modernbert")
    rope = {"rope_type": "default", "rope_theta": theta}
    config = transformers.ModernBertConfig(
        hidden_size=64, num_attention_heads=2, rope_parameters={"full_attention": rope, "sliding_attention": rope}
    )
    places = torch.tensor([0, 1, 2, 77, 1023, 8191])
    qkv = draw(6, 3 * 64, dtype=torch.float32)
    query, key, _ = qkv.view(1, 6, 3, 2, 32).permute(2, 0, 3, 1, 4)
    cosine, sine = modeling.ModernBertRotaryEmbedding(config)(qkv, places[None], "full_attention")
    expected = modeling.apply_rotary_pos_emb(query, key, cosine, sine)
    ours = turned(qkv, 2, places, theta).view(1, 6, 3, 2, 32).permute(2, 0, 3, 1, 4)
    for one, other in zip(ours[:2], expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


# -- The spread of scores and what a softmax makes of it -------------------------------------------------------------


@given(st.lists(st.floats(-4, 4), min_size=2, max_size=6))
def test_the_slope_is_the_norm_of_the_jacobian(scores):
    row = torch.tensor(scores, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: torch.softmax(x, dim=0), row)
    assert softmax_slope(torch.softmax(row, dim=0)).item() == pytest.approx(jacobian.norm().item(), abs=1e-12)
