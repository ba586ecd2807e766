"""Sinusoidal positions: the formula, what it means, and the tables of published models."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.nn.positions import binary_positions, integer_positions, normalized_positions, sinusoidal_positions


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
