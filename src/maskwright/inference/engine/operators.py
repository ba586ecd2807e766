"""Operators that are private to torch, behind checks: products whose weights are packed once, by oneDNN.

They are no promise of torch, so nothing else in the package names them. Each is compared at its first use with the
plain operator on a small input; where it is missing, fails or differs, `missing` says so and the plain one serves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
FUSED_INT8 = ("gelu", "gelu_new", "relu")  # those that int8 products have
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


def pack_int8(weight: Tensor) -> Tensor:
    """A weight int8 [out_size, in_size] in the order in which the processor reads it."""
    packed: Tensor = torch.ops.onednn.qlinear_prepack(weight.contiguous(), [_TOKENS, weight.shape[1]])
    return packed


@dataclass(frozen=True)
class Int8Weights:
    """A packed int8 matrix. scales: float32 [out_size], of its rows; bias: float32 [out_size]; x_scale, x_zero: of the
    uint8 numbers that it multiplies, whose values are x_scale * (number - x_zero).
    """

    packed: Tensor
    scales: Tensor
    zeros: Tensor
    bias: Tensor
    x_scale: float
    x_zero: int


def int8_product(x: Tensor, weights: Int8Weights, dtype: torch.dtype) -> Tensor:
    """x W^T + b. x: uint8 [tokens, in_size]. Returns float `dtype` [tokens, out_size]."""
    own = (weights.packed, weights.scales, weights.zeros, weights.bias)
    result: Tensor = torch.ops.onednn.qlinear_pointwise(
        x, weights.x_scale, weights.x_zero, *own, 1.0, 0, dtype, "none", [], ""
    )
    return result


def int8_product_plus(x: Tensor, other: Tensor, weights: Int8Weights) -> Tensor:
    """x W^T + b + other. x: uint8 [tokens, in_size]; other: float32 [tokens, out_size], as is the result."""
    own = (weights.packed, weights.scales, weights.zeros, other, weights.bias)
    result: Tensor = torch.ops.onednn.qlinear_pointwise.binary(
        x, weights.x_scale, weights.x_zero, *own, 1.0, 0, torch.float32, 1.0, 0, "add", 1.0, "none", [], ""
    )
    return result


def int8_product_act(x: Tensor, weights: Int8Weights, act: str, scale: float, zero: int) -> Tensor:
    """act(x W^T + b) as uint8 numbers again, of `scale` and `zero`. act: a name of FUSED_INT8.

    x: uint8 [tokens, in_size]. Returns uint8 [tokens, out_size].
    """
    own = (weights.packed, weights.scales, weights.zeros, weights.bias)
    name, algorithm = FUSED[act]
    result: Tensor = torch.ops.onednn.qlinear_pointwise(
        x, weights.x_scale, weights.x_zero, *own, scale, zero, torch.uint8, name, [], algorithm
    )
    return result


@cache
def missing_int8() -> str | None:
    """Why there are no int8 products on this processor; None where there are. Checked once."""
    if not torch.backends.mkldnn.is_available():
        return "this build of torch has no oneDNN"
    with torch.inference_mode():
        try:
            worst = _worst_int8_difference()
        except (RuntimeError, AttributeError, TypeError) as error:  # what torch raises for operators that changed
            return f"torch {torch.__version__} has no int8 products as they are known here ({_first_line(error)})"
    if not worst <= TOLERANCE[torch.bfloat16]:
        return f"int8 products differ from exact ones by {worst:.1e} on this processor"
    return None


def _worst_int8_difference() -> float:
    """The same for int8, against exact products of the same whole numbers, which reach the ends of their range."""
    draws = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (7, 64), generator=draws, dtype=torch.uint8)
    weight = torch.randint(-127, 128, (48, 64), generator=draws, dtype=torch.int8)
    x[0], weight[0] = 255, 127  # where a processor without these instructions overflows
    scales, bias, other = (torch.rand(size, generator=draws) for size in ((48,), (48,), (7, 48)))
    zeros = torch.zeros(48, dtype=torch.int32)
    weights = Int8Weights(pack_int8(weight), scales * 1e-3, zeros, bias, 0.02, 128)
    plain = (x.float() - 128) * 0.02 @ (weight.float() * 1e-3 * scales[:, None]).T + bias
    pairs = [(int8_product(x, weights, dtype), plain) for dtype in (torch.float32, torch.bfloat16)]
    pairs.append((int8_product_plus(x, other, weights), plain + other))
    for act in FUSED_INT8:
        numbers = int8_product_act(x, weights, act, 0.05, 16)
        pairs.append(((numbers.float() - 16) * 0.05, _PLAIN[act](plain).clamp(-16 * 0.05, (255 - 16) * 0.05)))
    return max(float((found.float() - wanted).abs().max() / wanted.abs().max()) for found, wanted in pairs)


def _worst_difference(dtype: torch.dtype) -> float:
    """The largest difference of packed products to plain ones on small inputs, relative to the largest result."""
    draws = torch.Generator().manual_seed(0)
    x, other, bias = (torch.randn(size, generator=draws).to(dtype) for size in ((7, 48), (7, 64), (64,)))
    weight = torch.randn(64, 48, generator=draws).to(dtype)
    packed, plain = pack(weight), F.linear(x.float(), weight.float(), bias.float())
    pairs = [(product(x, packed, bias, act), _PLAIN[act](plain)) for act in FUSED]
    pairs.append((product(x, packed, None), plain - bias.float()))
    pairs.append((product(x[:1], packed, bias), plain[:1]))
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
