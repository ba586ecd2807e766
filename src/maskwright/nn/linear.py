"""Linear layer and layer norm that compute in the dtype of their input.

Training keeps float32 weights, which are cast on use where hidden states are bfloat16. This is mixed precision without
autocast: the optimizer has float32 weights and gradients, and the matrix products run in bfloat16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# -- `torch.autograd.Function` with an annotated `apply`, which torch's lacks ----------------------------------------


class Function(torch.autograd.Function):
    """A function with its own gradient."""

    if TYPE_CHECKING:

        @classmethod
        def apply(cls, *args: Any, **kwargs: Any) -> Any:
            """Returns what `forward` returns, recorded for the gradient."""


class Linear(nn.Module):
    """y = x W^T + b, computed in the dtype of x.

    weight: [out_size, in_size]; bias: [out_size], or None; spread: factor on the standard deviation of the
    initialization. `models.build` fills every parameter from a keyed generator, so building a model never uses
    torch's global generator.
    """

    bias: nn.Parameter  # None without bias; typed non-optional for the callers that require it
    spread: float = 1.0

    def __init__(self, in_size: int, out_size: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_size, in_size))
        self.register_parameter("bias", nn.Parameter(torch.empty(out_size)) if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        """x: float [..., in_size]. Returns float [..., out_size]."""
        return F.linear(x, self.weight.to(x.dtype), None if self.bias is None else self.bias.to(x.dtype))

    def extra_repr(self) -> str:
        """Sizes, for repr."""
        return f"{self.weight.shape[1]} -> {self.weight.shape[0]}"


class LayerNorm(nn.Module):
    """z = (x - mean) / sqrt(var + eps) * weight + bias over each vector (Ba et al. 2016, equation 4).

    Mean and variance are per token vector, never over the batch; the kernel accumulates in float32 for every dtype of
    x. weight, bias: [size]; bias may be None.
    """

    def __init__(self, size: int, eps: float, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))
        self.bias = nn.Parameter(torch.empty(size)) if bias else None
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """x: float [..., size]. Returns the same shape and dtype."""
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.layer_norm(x, self.weight.shape, self.weight.to(x.dtype), bias, self.eps)

    def extra_repr(self) -> str:
        """Size and eps, for repr."""
        return f"{self.weight.shape[0]}, eps={self.eps}"
