"""Kernel regression as attention: a mean of known values, weighted by proximity (Nadaraya 1964, Watson 1964)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ...nn.attention import scaled_dot_product


def kernel_regression(x: Tensor, places: Tensor, values: Tensor, width: float) -> tuple[Tensor, Tensor]:
    """Estimate values at `x` from those known at `places` with a Gaussian kernel, computed as attention.

    exp(-(x - p)^2 / 2 width^2) divided by its sum over p is a softmax of (x p - p^2 / 2) / width^2: a product of a
    query (x, 1) and a key (p, -p^2 / 2), because x^2 is the same for all p. x: float [points]; places, values: float
    [known]. Returns float [points], and the weights [points, known].
    """
    query = torch.stack([x, torch.ones_like(x)], dim=-1) * math.sqrt(2) / width**2  # undoes the scale of head_dim 2
    key = torch.stack([places, -places.square() / 2], dim=-1)  # [known, 2]
    smooth, weights = scaled_dot_product(query, key, values[:, None])
    return smooth[:, 0], weights
