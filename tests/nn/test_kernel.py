"""Kernel regression as attention equals its own formula."""

from __future__ import annotations

import pytest
import torch

from maskwright.lessons.parts import kernel_regression


@pytest.mark.parametrize("width", [0.2, 1.0, 5.0])
def test_it_is_the_mean_weighted_by_a_gaussian(width: float):
    x, places, values = torch.randn(7).double(), torch.randn(9).double(), torch.randn(9).double()
    kernel = torch.exp(-((x[:, None] - places) ** 2) / (2 * width**2))
    weights = kernel / kernel.sum(dim=1, keepdim=True)
    found, own = kernel_regression(x, places, values, width)
    assert torch.allclose(own, weights) and torch.allclose(found, weights @ values)


def test_a_narrow_kernel_gives_the_nearest_value_and_a_wide_one_the_mean():
    places, values = torch.tensor([0.0, 1.0, 2.0]).double(), torch.tensor([5.0, 7.0, 9.0]).double()
    x = torch.tensor([0.9]).double()
    assert kernel_regression(x, places, values, 0.05)[0].item() == pytest.approx(7.0)
    assert kernel_regression(x, places, values, 1e3)[0].item() == pytest.approx(7.0, abs=1e-3)
