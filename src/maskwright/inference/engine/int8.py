"""Static int8 quantization: activation ranges from calibration texts, weights quantized per row.

Activations are shifted and scaled per channel, so that outlier channels do not reduce the precision of the others: x_j
becomes (x_j - middle_j) / (f_j * scale), where f_j = sqrt(range_j / max |weight| of column j) (SmoothQuant, Xiao et al.
2022, equation 4). The factors f_j move into the weights and the middles into the bias. The output of an activation
function stays uint8 for the next product, with one scale for all channels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ...nn.layers import FeedForward
from . import operators
from .layers import NAMES, PlainProduct, Product, activated

WeightKey = tuple[int, int]  # address and number of elements
ZERO = 128  # the number of a quantized 0
# Added to a smaller float32 number, this leaves the nearest integer in the last bits of the sum: torch converts those
# bits to uint8 in a third of the time that it takes to convert float32.
TO_INTEGER = 2.0**23


@dataclass(frozen=True)
class Int8Loss:
    """Quantization error: cosine similarity of mean-pooled embeddings to float32 on held-out texts."""

    calibrated_on: int
    checked_on: int
    mean_cosine: float
    min_cosine: float

    def __str__(self) -> str:
        return (
            f"int8: mean cosine similarity to float32 {self.mean_cosine:.4f} (minimum {self.min_cosine:.4f}) on "
            f"{self.checked_on:,} held-out texts, calibrated on {self.calibrated_on:,}."
        )


def weight_key(weight: Tensor) -> WeightKey:
    """Return a key that identifies a weight within a model."""
    return weight.data_ptr(), weight.numel()


@dataclass
class ActivationRange:
    """Minimum and maximum of each input channel of a product: float32 [in_size] each."""

    low: Tensor
    high: Tensor

    def add(self, x: Tensor) -> None:
        """Extend the range to include x: float [tokens, in_size]."""
        low, high = torch.aminmax(x.float(), dim=0)
        self.low, self.high = torch.minimum(self.low, low), torch.maximum(self.high, high)


class _Recorded(PlainProduct):
    """A float32 product that records the range of its input."""

    def __init__(self, weight: Tensor, bias: Tensor | None, ranges: dict[WeightKey, ActivationRange]) -> None:
        super().__init__(weight, bias, torch.float32)
        size = weight.shape[1]
        self.range = ranges.setdefault(
            weight_key(weight), ActivationRange(torch.full((size,), torch.inf), torch.full((size,), -torch.inf))
        )

    def __call__(self, x: Tensor) -> Tensor:
        """Record and multiply. x: float32 [tokens, in_size]; returns [tokens, out_size]."""
        self.range.add(x)
        return super().__call__(x)

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """Record, multiply and add. x: float32 [tokens, in_size]; residual and result: [tokens, out_size]."""
        self.range.add(x)
        return super().plus(x, residual)


@dataclass
class CalibrationObserver:
    """Float32 kernels that record the activation ranges by weight."""

    ranges: dict[WeightKey, ActivationRange] = field(default_factory=dict)
    dtype: torch.dtype = torch.float32
    attention_dtype: torch.dtype = torch.float32

    def num_rows(self, tokens: int) -> int:
        """No padding: its range does not belong to the texts."""
        return tokens

    def product(self, weight: Tensor, bias: Tensor | None, *, to_attention: bool = False) -> Product:
        """See KernelSet."""
        return _Recorded(weight, bias, self.ranges)

    def feed_forward(self, ffn: FeedForward) -> Callable[[Tensor, Tensor], Tensor]:
        """See KernelSet."""
        up, down = self.product(ffn.up.weight, ffn.up.bias), self.product(ffn.down.weight, ffn.down.bias)
        return lambda x, residual: down.plus(activated(up(x), ffn.act, ffn.gated), residual)


class Int8Product:
    """Computes x W^T + b for float x in int8; returns `dtype`."""

    def __init__(self, weight: Tensor, bias: Tensor | None, found: ActivationRange, dtype: torch.dtype) -> None:
        weight, self.dtype = weight.detach().float(), dtype
        middle, half = (found.high + found.low) / 2, (found.high - found.low) / 2
        half = half.clamp(min=max(1e-6 * float(half.max()), 1e-30))  # constant channels
        factors = (half / weight.abs().amax(dim=0).clamp(min=1e-5)).sqrt()  # [in_size]
        scale = float((half / factors).max()) / 127
        self.by = 1 / (factors * scale)
        self.start = TO_INTEGER + ZERO - middle * self.by  # rounds to an integer: x = middle becomes ZERO, or nearly so
        middle = (TO_INTEGER + ZERO - self.start.double()).div(self.by).float()  # exactly what becomes ZERO
        shifted = weight @ middle if bias is None else bias.detach().float() + weight @ middle
        self.weights = _quantize(weight * factors, shifted, scale, ZERO)

    def numbers(self, x: Tensor) -> Tensor:
        """Quantize x: uint8 [tokens, in_size], ZERO for the middle of each channel."""
        sums = torch.addcmul(self.start, x.float(), self.by).clamp_(TO_INTEGER, TO_INTEGER + 255)
        return sums.view(torch.int32).to(torch.uint8)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply. x: float [tokens, in_size]; returns [tokens, out_size]."""
        return operators.int8_product(self.numbers(x), self.weights, self.dtype)

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """Multiply and add. x: float [tokens, in_size]; residual and result: float32 [tokens, out_size]."""
        return operators.int8_product_plus(self.numbers(x), residual, self.weights)


class Int8FeedForward:
    """Both products in int8; the intermediate stays uint8 if the activation is fused into the product."""

    def __init__(self, ffn: FeedForward, up: ActivationRange, down: ActivationRange) -> None:
        self.act, self.gated = ffn.act, ffn.gated
        self.name = None if ffn.gated else NAMES.get(ffn.act)
        self.up = Int8Product(ffn.up.weight, ffn.up.bias, up, torch.float32)
        self.down: Int8Product | None = None
        if self.name not in operators.FUSED_INT8:
            self.down = Int8Product(ffn.down.weight, ffn.down.bias, down, torch.float32)
            return
        low, high = min(float(down.low.min()), 0.0), max(float(down.high.max()), 0.0)
        self.scale = max((high - low) / 255, 1e-30)
        self.zero = round(-low / self.scale)
        bias = ffn.down.bias
        start = torch.zeros(ffn.down.weight.shape[0]) if bias is None else bias.detach().float()
        self.weights = _quantize(ffn.down.weight.detach().float(), start, self.scale, self.zero)

    def __call__(self, x: Tensor, residual: Tensor) -> Tensor:
        """Apply the layer and add the residual. x, residual and result: float32 [tokens, hidden]."""
        if self.down is not None:
            return self.down.plus(activated(self.up(x), self.act, self.gated), residual)
        assert self.name is not None
        numbers = self.up.numbers(x)
        inner = operators.int8_product_act(numbers, self.up.weights, self.name, self.scale, self.zero)
        return operators.int8_product_plus(inner, residual, self.weights)


@dataclass(frozen=True)
class Int8Kernels:
    """Int8 kernels; hidden states stay float32.

    ranges: from a CalibrationObserver; attention_dtype: the fastest dtype of the CPU.
    """

    ranges: Mapping[WeightKey, ActivationRange]
    attention_dtype: torch.dtype
    dtype: torch.dtype = torch.float32

    def num_rows(self, tokens: int) -> int:
        """See KernelSet."""
        return operators.num_rows(tokens)

    def product(self, weight: Tensor, bias: Tensor | None, *, to_attention: bool = False) -> Product:
        """See KernelSet."""
        dtype = self.attention_dtype if to_attention else self.dtype
        return Int8Product(weight, bias, self.ranges[weight_key(weight)], dtype)

    def feed_forward(self, ffn: FeedForward) -> Callable[[Tensor, Tensor], Tensor]:
        """See KernelSet."""
        up, down = (self.ranges[weight_key(one.weight)] for one in (ffn.up, ffn.down))
        return Int8FeedForward(ffn, up, down)


def _quantize(weight: Tensor, bias: Tensor, x_scale: float, x_zero: int) -> operators.Int8Weights:
    """Quantize weights symmetrically per row. weight: float32 [out_size, in_size]; bias: [out_size]."""
    largest = operators.largest_weight()
    scales = weight.abs().amax(dim=1).clamp(min=1e-30) / largest  # [out_size]
    numbers = (weight / scales[:, None]).round().clamp(-largest, largest).to(torch.int8)
    zeros = torch.zeros(len(scales), dtype=torch.int32)
    return operators.Int8Weights(operators.pack_int8(numbers), scales, zeros, bias, x_scale, x_zero)
