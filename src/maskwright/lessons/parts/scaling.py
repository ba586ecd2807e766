"""The variance of attention scores and its effect on the softmax: the reason for the division by sqrt(head_dim)
(Vaswani et al. 2017, 3.2.1).

If the d components of q and k are independent, with mean 0 and variance 1, q . k has mean 0 and variance d. The softmax
of widely spread scores is nearly one-hot and saturated, so its gradient vanishes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.randomness import generator

SAMPLES = 100_000
PART = 5_000  # pairs of vectors at once


def attention_weights(scores: Tensor, head_dim: int | None = None) -> Tensor:
    """Return softmax(scores / sqrt(head_dim)); each row sums to 1.

    scores: float [..., keys], as is the result; head_dim: None leaves them unscaled.
    """
    return torch.softmax(scores if head_dim is None else scores / math.sqrt(head_dim), dim=-1)


@dataclass(frozen=True)
class Moments:
    """Mean and variance of `count` numbers."""

    mean: float
    variance: float
    count: int

    @property
    def standard_error(self) -> float:
        """Standard error of the mean."""
        return math.sqrt(self.variance / self.count)


def moments(values: Tensor) -> Moments:
    """Compute the moments of float [count]."""
    return Moments(float(values.mean()), float(values.var(correction=0)), values.numel())


def normal(count: int, *shape: int, seed: int = 0, purpose: str = "normal") -> Tensor:
    """Draw standard normal numbers, determined by seed and purpose: float64 [count, ...]."""
    return torch.from_numpy(generator(seed, purpose).standard_normal((count, *shape)))


def sampled_scores(head_dim: int, count: int = SAMPLES, seed: int = 0) -> Tensor:
    """Return q . k of `count` pairs of random vectors: float64 [count]."""
    parts = []
    for start in range(0, count, PART):
        size = min(PART, count - start)
        query, key = (normal(size, head_dim, seed=seed, purpose=f"{what} {start} of {head_dim}") for what in "qk")
        parts.append((query * key).sum(dim=-1))
    return torch.cat(parts)


@dataclass(frozen=True)
class Identity:
    """A rule for means and variances, with the value of the formula and of samples."""

    rule: str
    formula: float
    sampled: float


def identities(count: int = SAMPLES, seed: int = 0) -> list[Identity]:
    """Check the rules for Var(q . k) = d for two independent variables with means 1 and -2, variances 4 and 0.25."""
    mean_x, var_x, mean_y, var_y, c = 1.0, 4.0, -2.0, 0.25, 3.0
    x = mean_x + math.sqrt(var_x) * normal(count, seed=seed, purpose="x")
    y = mean_y + math.sqrt(var_y) * normal(count, seed=seed, purpose="y")
    total, product, scaled = moments(x + y), moments(x * y), moments(c * x)
    return [
        Identity("E[X + Y] = E[X] + E[Y]", mean_x + mean_y, total.mean),
        Identity("Var(X + Y) = Var(X) + Var(Y)", var_x + var_y, total.variance),
        Identity("E[XY] = E[X] E[Y]", mean_x * mean_y, product.mean),
        Identity("Var(XY) = (Var(X) + E[X]²)(Var(Y) + E[Y]²) − E[X]² E[Y]²",
                 (var_x + mean_x**2) * (var_y + mean_y**2) - mean_x**2 * mean_y**2, product.variance),
        Identity("Var(cX) = c² Var(X), c = 3", c**2 * var_x, scaled.variance),
    ]  # fmt: skip


def entropy(weights: Tensor) -> Tensor:
    """Entropy of rows of weights, in nats: 0 for one-hot, log(keys) for uniform weights. float [..., keys] to
    [...]...].
    """
    return torch.special.entr(weights).sum(dim=-1)


def softmax_slope(weights: Tensor) -> Tensor:
    """Sensitivity of the softmax to its scores: the Frobenius norm of the Jacobian diag(p) - p p^T.

    weights: float [..., keys], of a softmax. Returns float [...]; 0 where it is saturated.
    """
    jacobian = torch.diag_embed(weights) - weights[..., :, None] * weights[..., None, :]  # [..., keys, keys]
    return torch.linalg.matrix_norm(jacobian)


@dataclass(frozen=True)
class Saturation:
    """Mean entropy and slope of the softmax over random keys, for unscaled and scaled scores."""

    head_dim: int
    entropy: float
    slope: float
    scaled_entropy: float
    scaled_slope: float


def saturation(head_dim: int, num_keys: int = 16, num_queries: int = 2_000, seed: int = 0) -> Saturation:
    """Measure the softmax of random queries over `num_keys` random keys of `head_dim` components."""
    scores = sampled_scores(head_dim, num_queries * num_keys, seed).view(num_queries, num_keys)
    plain, scaled = attention_weights(scores), attention_weights(scores, head_dim)
    measured = [float(measure(weights).mean()) for weights in (plain, scaled) for measure in (entropy, softmax_slope)]
    return Saturation(head_dim, *measured)
