"""The spread of scores and what a softmax makes of it: moments, identities, entropy, slope."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.lessons.parts import (
    attention_weights,
    entropy,
    identities,
    moments,
    sampled_scores,
    saturation,
    softmax_slope,
)
from maskwright.nn.attention import scaled_dot_product


def test_weights_of_scores_are_those_of_attention():
    query, key = torch.randn(3, 16), torch.randn(5, 16)
    assert torch.allclose(attention_weights(query @ key.T, 16), scaled_dot_product(query, key, key)[1])


@pytest.mark.parametrize("head_dim", [3, 64])
def test_scores_have_mean_0_and_the_variance_of_their_width(head_dim: int):
    found = moments(sampled_scores(head_dim, 50_000))
    assert abs(found.mean) < 4 * found.standard_error and found.variance == pytest.approx(head_dim, rel=0.04)


def test_samples_are_named_by_their_seed_and_do_not_depend_on_how_many_follow():
    assert torch.equal(sampled_scores(4, 100), sampled_scores(4, 100))
    assert not torch.equal(sampled_scores(4, 100), sampled_scores(4, 100, seed=1))
    assert len(sampled_scores(2, 12_345)) == 12_345


def test_each_identity_is_met_by_its_samples():
    found = identities()
    assert [one.formula for one in found] == [-1.0, 4.25, -2.0, 17.25, 36.0]
    for one in found:
        assert one.sampled == pytest.approx(one.formula, abs=0.02 * max(1.0, abs(one.formula)))


def test_entropy_and_slope_of_known_rows():
    assert entropy(torch.full((1, 8), 1 / 8)).item() == pytest.approx(math.log(8))
    assert entropy(torch.tensor([0.0, 1.0, 0.0])).item() == 0.0
    assert softmax_slope(torch.tensor([0.0, 1.0])).item() == 0.0
    assert softmax_slope(torch.tensor([0.5, 0.5])).item() == pytest.approx(0.5)


@given(st.lists(st.floats(-4, 4), min_size=2, max_size=6))
def test_the_slope_is_the_norm_of_the_jacobian(scores: list[float]):
    row = torch.tensor(scores, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: torch.softmax(x, dim=0), row)
    assert softmax_slope(torch.softmax(row, dim=0)).item() == pytest.approx(jacobian.norm().item(), abs=1e-12)


def test_unscaled_softmax_saturates_with_the_width_and_the_scaled_one_does_not():
    narrow, wide = saturation(4, num_queries=300), saturation(256, num_queries=300)
    assert wide.slope < narrow.slope / 2 and wide.entropy < narrow.entropy / 2
    assert wide.scaled_entropy == pytest.approx(narrow.scaled_entropy, abs=0.15)
