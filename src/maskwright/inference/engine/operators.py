"""Operators that are private to torch, behind checks: products whose weights are packed once, by oneDNN.

They are no promise of torch, so nothing else in the package names them. Each is compared at its first use with the
plain operator on a small input; where it is missing, fails or differs, `missing` says so and the plain one serves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# How far a packed product may be from the plain one, relative to the largest number of the result.
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2}
# Our activations as oneDNN calls them: name and algorithm. All others are applied after the product.
FUSED: dict[str, tuple[str, str]] = {
    "none": ("none", ""),
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "relu": ("relu", ""),
    "silu": ("swish", ""),
    "tanh": ("tanh", ""),
    "sigmoid": ("sigmoid", ""),
}
_PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}
_TOKENS = 512  # the number of rows for which weights are laid out; others are as right, and nearly as fast


def pack(weight: Tensor) -> Tensor:
    """A weight [out_size, in_size], float32 or bfloat16, in the order in which the processor reads it."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _TOKENS)
    return packed


def product(x: Tensor, packed: Tensor, bias: Tensor | None, act: str = "none") -> Tensor:
    """act(x W^T + b). x: [tokens, in_size]; packed: of `pack`; bias: [out_size]; act: a name of FUSED.

    Returns [tokens, out_size], all in the dtype of x.
    """
    name, algorithm = FUSED[act]
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, name, [], algorithm)
    return result


def product_and(x: Tensor, other: Tensor, packed: Tensor, bias: Tensor | None, how: str) -> Tensor:
    """x W^T + b, to which `other` is added ("add") or by which it is multiplied ("mul"); both [tokens, out_size]."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, other, packed, bias, how)
    return result


@cache
def missing(dtype: torch.dtype) -> str | None:
    """Why there are no packed products of `dtype` on this processor; None where there are. Checked once."""
    if dtype not in TOLERANCE:
        return f"no packed products in {str(dtype).removeprefix('torch.')}"
    if not torch.backends.mkldnn.is_available():
        return "this build of torch has no oneDNN"
    if dtype == torch.bfloat16 and not _call(torch.ops.mkldnn, "_is_mkldnn_bf16_supported"):
        return "oneDNN has no bfloat16 on this processor"
    with torch.inference_mode():
        try:
            worst = _worst_difference(dtype)
        except (RuntimeError, AttributeError, TypeError) as error:  # what torch raises for operators that changed
            return f"torch {torch.__version__} has no packed products as they are known here ({_first_line(error)})"
    if not worst <= TOLERANCE[dtype]:
        return f"packed products differ from plain ones by {worst:.1e} on this processor"
    return None


def _worst_difference(dtype: torch.dtype) -> float:
    """The largest difference of packed products to plain ones on small inputs, relative to the largest result."""
    draws = torch.Generator().manual_seed(0)
    x, other, bias = (torch.randn(size, generator=draws).to(dtype) for size in ((7, 48), (7, 64), (64,)))
    weight = torch.randn(64, 48, generator=draws).to(dtype)
    packed, plain = pack(weight), F.linear(x.float(), weight.float(), bias.float())
    pairs = [(product(x, packed, bias, act), _PLAIN[act](plain)) for act in FUSED]
    pairs.append((product(x, packed, None), plain - bias.float()))
    pairs.append((product_and(x, other, packed, bias, "add"), plain + other.float()))
    pairs.append((product_and(x, other, packed, bias, "mul"), plain * other.float()))
    return max(float((found.float() - wanted).abs().max() / wanted.abs().max()) for found, wanted in pairs)


def _call(namespace: Any, name: str) -> bool:
    """What an operator answers; False where torch does not have it."""
    try:
        return bool(getattr(namespace, name)())
    except (RuntimeError, AttributeError):
        return False


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
