"""The spread of scores and what a softmax makes of it: moments, identities, entropy, slope."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.lessons.parts import (
    identities,
    moments,
    sampled_scores,
    softmax_slope,
)


@pytest.mark.parametrize("head_dim", [3, 64])
def test_scores_have_mean_0_and_the_variance_of_their_width(head_dim: int):
    found = moments(sampled_scores(head_dim, 50_000))
    assert abs(found.mean) < 4 * found.standard_error and found.variance == pytest.approx(head_dim, rel=0.04)


def test_each_identity_is_met_by_its_samples():
    found = identities()
    assert [one.formula for one in found] == [-1.0, 4.25, -2.0, 17.25, 36.0]
    for one in found:
        assert one.sampled == pytest.approx(one.formula, abs=0.02 * max(1.0, abs(one.formula)))


@given(st.lists(st.floats(-4, 4), min_size=2, max_size=6))
def test_the_slope_is_the_norm_of_the_jacobian(scores: list[float]):
    row = torch.tensor(scores, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: torch.softmax(x, dim=0), row)
    assert softmax_slope(torch.softmax(row, dim=0)).item() == pytest.approx(jacobian.norm().item(), abs=1e-12)
