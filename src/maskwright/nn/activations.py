"""Activation functions by the names used in published configurations."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def gelu(x: Tensor) -> Tensor:
    """x * Phi(x) with the exact error function (Hendrycks and Gimpel 2016, equation 1). x: any shape [...]."""
    return F.gelu(x)


def gelu_new(x: Tensor) -> Tensor:
    """GELU with the tanh approximation (Hendrycks and Gimpel 2016, section 2). x: any shape [...]."""
    return F.gelu(x, approximate="tanh")


def linear(x: Tensor) -> Tensor:
    """Identity: no activation. x: any shape [...]."""
    return x


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": gelu,
    "gelu_python": gelu,
    "gelu_new": gelu_new,
    "gelu_fast": gelu_new,
    "gelu_pytorch_tanh": gelu_new,
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "linear": linear,
}
