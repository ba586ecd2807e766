"""Weights laid out once for many small products: what a step of generation multiplies with, again and again.

A step has few rows, so it takes as long as reading the weights does. On a processor oneDNN's own layout is read faster
than rows of a matrix, and in bfloat16 half as much is read; elsewhere the weights are cast once and not at each use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

Product = Callable[[Tensor], Tensor]


class PackedWeight:
    """x W^T + b for a weight [out_size, in_size] and a bias [out_size] or None, in one dtype.

    It is a copy: `fits` says whether it may stand for the weight, which training may have changed since.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.version = weight._version
        self.product = _product(weight.detach(), None if bias is None else bias.detach().to(dtype), dtype)

    def fits(self, weight: Tensor, x: Tensor) -> bool:
        """Whether x, float [rows, in_size], is of this dtype, no gradient is wanted, and the weight is as it was."""
        return x.dtype == self.dtype and not torch.is_grad_enabled() and weight._version == self.version

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """A copy of a model has none until it is asked to."""
        return type(None), ()


def _product(weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Product:
    has_layout = hasattr(torch.ops.mkldnn, "_linear_pointwise") and torch.backends.mkldnn.is_available()
    if weight.device.type == "cpu" and dtype in (torch.float32, torch.bfloat16) and has_layout:
        laid_out = torch.ops.mkldnn._reorder_linear_weight(weight.to(dtype), None)
        return partial(_multiply, laid_out=laid_out, bias=bias)
    return partial(F.linear, weight=weight.to(dtype), bias=bias)


def _multiply(x: Tensor, laid_out: Tensor, bias: Tensor | None) -> Tensor:
    """x: float [rows, in_size]. Returns float [rows, out_size]."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, laid_out, bias, "none", [], "")
    return result
