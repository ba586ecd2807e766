"""Private torch operators for oneDNN products with prepacked weights, guarded by checks.

These operators are not part of torch's public API, so no other module uses them. On first use each is compared with the
public operator on a small input; if it is missing, fails or differs, `missing` returns the reason and the public
operator is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# Maximum difference between packed and plain products, relative to the largest element of the result.
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2}
# oneDNN name and algorithm of our activations. All others are applied after the product.
FUSED: dict[str, tuple[str, str]] = {
    "none": ("none", ""),
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "relu": ("relu", ""),
    "silu": ("swish", ""),
    "tanh": ("tanh", ""),
    "sigmoid": ("sigmoid", ""),
}
FUSED_INT8 = ("gelu", "gelu_new", "relu")  # fused into int8 products
_PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}
_TOKENS = 512  # number of rows that the packed layout is optimized for; any number works


@cache
def _operator(namespace: str, name: str, overload: str = "default") -> Callable[..., Tensor]:
    """Return one overload of an operator: without it, torch looks for the overload that fits at every call."""
    operator: Callable[..., Tensor] = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    return operator


def num_rows(tokens: int) -> int:
    """Return the number of rows for packed products of `tokens` rows: a multiple of 8 to 128, 16 to 256, 32 to 512, 64.

    oneDNN compiles each product for each number of rows, which takes 3 ms and 2.5 MB for the four of a layer: as long
    as a short text. With these numbers, 5% more rows for single texts and 1 to 4% for packs, few are compiled.
    """
    step = min(max(8, 1 << max(tokens.bit_length() - 4, 0)), 64)
    return -(-tokens // step) * step


def pack(weight: Tensor) -> Tensor:
    """Pack a float32 or bfloat16 weight [out_size, in_size] into the CPU layout."""
    return _operator("mkldnn", "_reorder_linear_weight")(weight.contiguous(), _TOKENS)


def product(x: Tensor, packed: Tensor, bias: Tensor | None, act: str = "none") -> Tensor:
    """Return act(x W^T + b): [tokens, out_size] in the dtype of x.

    x: [tokens, in_size]; packed: from `pack`; bias: [out_size]; act: a name of FUSED.
    """
    name, algorithm = FUSED[act]
    return _operator("mkldnn", "_linear_pointwise")(x, packed, bias, name, [], algorithm)


def product_and(x: Tensor, other: Tensor, packed: Tensor, bias: Tensor | None, how: str) -> Tensor:
    """Return x W^T + b plus ("add") or times ("mul") `other`; both [tokens, out_size]."""
    return _operator("mkldnn", "_linear_pointwise", "binary")(x, other, packed, bias, how)


@cache
def missing(dtype: torch.dtype) -> str | None:
    """Return why packed products in `dtype` are not supported on this CPU; None if they are. Checked once."""
    if dtype not in TOLERANCE:
        return f"no packed products in {str(dtype).removeprefix('torch.')}"
    if not torch.backends.mkldnn.is_available():
        return "this build of torch has no oneDNN"
    if dtype == torch.bfloat16 and not _call(torch.ops.mkldnn, "_is_mkldnn_bf16_supported"):
        return "oneDNN does not support bfloat16 on this CPU"
    with torch.inference_mode():
        try:
            worst = _worst_difference(dtype)
        except (RuntimeError, AttributeError, TypeError) as error:  # raised by torch if an operator changed
            return f"torch {torch.__version__} has no compatible packed products ({_first_line(error)})"
    if not worst <= TOLERANCE[dtype]:
        return f"packed products differ from plain ones by {worst:.1e} on this CPU"
    return None


def pack_int8(weight: Tensor) -> Tensor:
    """Pack an int8 weight [out_size, in_size] into the CPU layout."""
    return _operator("onednn", "qlinear_prepack")(weight.contiguous(), [_TOKENS, weight.shape[1]])


@dataclass(frozen=True)
class Int8Weights:
    """A packed int8 matrix.

    scales: per row, float32 [out_size]; bias: float32 [out_size]; x_scale, x_zero: scale and zero point of the uint8
    input.
    """

    packed: Tensor
    scales: Tensor
    zeros: Tensor
    bias: Tensor
    x_scale: float
    x_zero: int


def int8_product(x: Tensor, weights: Int8Weights, dtype: torch.dtype) -> Tensor:
    """Return x W^T + b in `dtype`: [tokens, out_size]. x: uint8 [tokens, in_size]."""
    arguments = (weights.packed, weights.scales, weights.zeros, weights.bias)
    return _operator("onednn", "qlinear_pointwise")(
        x, weights.x_scale, weights.x_zero, *arguments, 1.0, 0, dtype, "none", [], ""
    )


def int8_product_plus(x: Tensor, other: Tensor, weights: Int8Weights) -> Tensor:
    """Return x W^T + b + other. x: uint8 [tokens, in_size]; other and result: float32 [tokens, out_size]."""
    arguments = (weights.packed, weights.scales, weights.zeros, other, weights.bias)
    return _operator("onednn", "qlinear_pointwise", "binary")(
        x, weights.x_scale, weights.x_zero, *arguments, 1.0, 0, torch.float32, 1.0, 0, "add", 1.0, "none", [], ""
    )


def int8_product_act(x: Tensor, weights: Int8Weights, act: str, scale: float, zero: int) -> Tensor:
    """Return act(x W^T + b) quantized with `scale` and `zero`: uint8 [tokens, out_size].

    x: uint8 [tokens, in_size]; act: a name of FUSED_INT8.
    """
    arguments = (weights.packed, weights.scales, weights.zeros, weights.bias)
    name, algorithm = FUSED[act]
    return _operator("onednn", "qlinear_pointwise")(
        x, weights.x_scale, weights.x_zero, *arguments, scale, zero, torch.uint8, name, [], algorithm
    )


@cache
def missing_int8() -> str | None:
    """Return why int8 products are not supported on this CPU; None if they are. Checked once."""
    if not torch.backends.mkldnn.is_available():
        return "this build of torch has no oneDNN"
    try:
        worst = _worst_int8_difference(largest_weight())
    except (RuntimeError, AttributeError, TypeError) as error:  # raised by torch if an operator changed
        return f"torch {torch.__version__} has no compatible int8 products ({_first_line(error)})"
    if not worst <= TOLERANCE[torch.bfloat16]:
        return f"int8 products differ from exact ones by {worst:.1e} on this CPU"
    return None


@cache
def largest_weight() -> int:
    """Return the largest quantized weight whose products are exact: 127, or 63 on CPUs without VNNI.

    Those add two products of a uint8 and an int8 number in 16 bits: 2 * 255 * 63 fits, 2 * 255 * 127 does not.
    """
    return 127 if _worst_int8_difference(127) <= TOLERANCE[torch.bfloat16] else 63


@torch.inference_mode()
def _worst_int8_difference(largest: int) -> float:
    """Return the largest relative difference of int8 products to exact ones, with inputs at the ends of the range.

    largest: of the quantized weights.
    """
    draws = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (7, 64), generator=draws, dtype=torch.uint8)
    weight = torch.randint(-largest, largest + 1, (48, 64), generator=draws, dtype=torch.int8)
    x[0], weight[0] = 255, largest
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
    """Return the largest relative difference of packed products to plain ones on small inputs."""
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
    """Call an operator; False if torch does not have it."""
    try:
        return bool(getattr(namespace, name)())
    except (RuntimeError, AttributeError):
        return False


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
