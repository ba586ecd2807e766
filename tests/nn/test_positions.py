"""Sinusoidal positions: the formula, what it means, and the tables of published models."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError
from maskwright.nn.attention import attend
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
    """The pack with its queries and keys turned."""
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
        hidden_size=64,
        num_attention_heads=2,
        rope_parameters={"full_attention": rope, "sliding_attention": rope},
    )
    places = torch.tensor([0, 1, 2, 77, 1023, 8191])
    qkv = draw(6, 3 * 64, dtype=torch.float32)
    query, key, _ = qkv.view(1, 6, 3, 2, 32).permute(2, 0, 3, 1, 4)
    cosine, sine = modeling.ModernBertRotaryEmbedding(config)(qkv, places[None], "full_attention")
    expected = modeling.apply_rotary_pos_emb(query, key, cosine, sine)
    ours = turned(qkv, 2, places, theta).view(1, 6, 3, 2, 32).permute(2, 0, 3, 1, 4)
    for one, other in zip(ours[:2], expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)
