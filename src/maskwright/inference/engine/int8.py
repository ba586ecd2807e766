"""Static int8 quantization: activation ranges from calibration texts, weights quantized per row.

Activations are shifted and scaled per channel, so that outlier channels do not reduce the precision of the others: x_j
becomes (x_j - middle_j) / (f_j * scale), where f_j = sqrt(range_j / max |weight| of column j) (SmoothQuant, Xiao et al.
2022, equation 4). The factors f_j move into the weights and the middles into the bias. The output of an activation
function stays uint8 for the next product, with one scale for all channels: the one with the least squared error, at
which a few large values may be clipped.
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
CLIPS = [1 - step / 50 for step in range(41)]  # shares of the largest value, which are tried as the largest number


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
    """Minimum and maximum of each input channel of a product: float32 [in_size] each.

    counts: how often each bfloat16 number occurred, by its bits: int64 [65,536]; None if it is not counted.
    """

    low: Tensor
    high: Tensor
    counts: Tensor | None = None

    def add(self, x: Tensor) -> None:
        """Extend the range to include x: float [tokens, in_size]."""
        low, high = torch.aminmax(x.float(), dim=0)
        self.low, self.high = torch.minimum(self.low, low), torch.maximum(self.high, high)
        if self.counts is not None:
            bits = x.to(torch.bfloat16).view(torch.int16).int() & 0xFFFF
            self.counts += torch.bincount(bits.flatten(), minlength=len(self.counts))

    def in_one_scale(self) -> tuple[float, int]:
        """Scale and zero point of uint8 numbers for all channels: 0 is exact, and the squared error is the least."""
        low, high = min(float(self.low.min()), 0.0), max(float(self.high.max()), 0.0)
        found = [_scale_of(low, high * share) for share in CLIPS]
        if self.counts is None:
            return found[0]
        (bits,) = self.counts.nonzero(as_tuple=True)
        values, counts = bits.to(torch.int16).view(torch.bfloat16).double(), self.counts[bits].double()

        def error(scale: float, zero: int) -> float:
            rounded = (((values / scale).round() + zero).clamp(0, 255) - zero) * scale
            return float((rounded - values).square() @ counts)

        return min(found, key=lambda one: error(*one))


def _scale_of(low: float, high: float) -> tuple[float, int]:
    scale = max((high - low) / 255, 1e-30)
    return scale, round(-low / scale)


class _Recorded(PlainProduct):
    """A float32 product that records the range of its input."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None, ranges: dict[WeightKey, ActivationRange], counts: bool = False
    ) -> None:
        super().__init__(weight, bias, torch.float32)
        ends = torch.full((weight.shape[1],), torch.inf)
        empty = ActivationRange(ends, -ends, torch.zeros(1 << 16, dtype=torch.int64) if counts else None)
        self.range = ranges.setdefault(weight_key(weight), empty)

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
        up = self.product(ffn.up.weight, ffn.up.bias)
        down = _Recorded(ffn.down.weight, ffn.down.bias, self.ranges, counts=not ffn.gated)
        return lambda x, residual: down.plus(activated(up(x), ffn.act, ffn.gated), residual)


@dataclass(frozen=True)
class QuantizedWeights:
    """A product x W^T + b in int8.

    numbers: int8 [out_size, in_size]; scales: of the rows, float32 [out_size]; bias: float32 [out_size]; by, start:
    float32 [in_size]: x * by + start is the uint8 number of x; x_scale, x_zero: scale and zero point of these numbers.
    """

    numbers: Tensor
    scales: Tensor
    bias: Tensor
    by: Tensor
    start: Tensor
    x_scale: float
    x_zero: int

    @classmethod
    def of(
        cls, weight: Tensor, bias: Tensor, by: Tensor, start: Tensor, x_scale: float, x_zero: int
    ) -> QuantizedWeights:
        """Quantize weights symmetrically per row. weight: float32 [out_size, in_size]; others as in the class."""
        largest = operators.largest_weight()
        scales = weight.abs().amax(dim=1).clamp(min=1e-30) / largest  # [out_size]
        numbers = (weight / scales[:, None]).round().clamp(-largest, largest).to(torch.int8)
        return cls(numbers, scales, bias, by, start, x_scale, x_zero)

    def packed(self) -> operators.Int8Weights:
        """Return the weights in oneDNN's layout."""
        zeros = torch.zeros(len(self.scales), dtype=torch.int32)
        packed = operators.pack_int8(self.numbers)
        return operators.Int8Weights(packed, self.scales, zeros, self.bias, self.x_scale, self.x_zero)


def quantize(weight: Tensor, bias: Tensor | None, found: ActivationRange) -> QuantizedWeights:
    """Quantize a product whose input has a middle and a scale per channel, with ZERO for the middle."""
    weight = weight.detach().float()
    middle, half = (found.high + found.low) / 2, (found.high - found.low) / 2
    half = half.clamp(min=max(1e-6 * float(half.max()), 1e-30))  # constant channels
    factors = (half / weight.abs().amax(dim=0).clamp(min=1e-5)).sqrt()  # [in_size]
    scale = float((half / factors).max()) / 127
    by = 1 / (factors * scale)
    start = (ZERO - middle * by).round()  # middle becomes ZERO, or nearly so
    middle = (ZERO - start.double()).div(by).float()  # exactly what becomes ZERO
    shifted = weight @ middle if bias is None else bias.detach().float() + weight @ middle
    return QuantizedWeights.of(weight * factors, shifted, by, start, scale, ZERO)


def quantize_activated(weight: Tensor, bias: Tensor | None, found: ActivationRange) -> QuantizedWeights:
    """Quantize a product whose input is the output of an activation function, with one scale for all channels."""
    weight = weight.detach().float()
    scale, zero = found.in_one_scale()
    start = weight.new_zeros(weight.shape[0]) if bias is None else bias.detach().float()
    by, zeros = weight.new_full((weight.shape[1],), 1 / scale), weight.new_full((weight.shape[1],), float(zero))
    return QuantizedWeights.of(weight, start, by, zeros, scale, zero)


class Int8Product:
    """Computes x W^T + b for float x in int8; returns `dtype`."""

    def __init__(self, weight: Tensor, bias: Tensor | None, found: ActivationRange, dtype: torch.dtype) -> None:
        quantized, self.dtype = quantize(weight, bias, found), dtype
        self.by, self.start = quantized.by, quantized.start + TO_INTEGER
        self.weights = quantized.packed()

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
        self.weights = quantize_activated(ffn.down.weight, ffn.down.bias, down).packed()

    def __call__(self, x: Tensor, residual: Tensor) -> Tensor:
        """Apply the layer and add the residual. x, residual and result: float32 [tokens, hidden]."""
        if self.down is not None:
            return self.down.plus(activated(self.up(x), self.act, self.gated), residual)
        assert self.name is not None
        numbers = self.up.numbers(x)
        scale, zero = self.weights.x_scale, self.weights.x_zero
        inner = operators.int8_product_act(numbers, self.up.weights, self.name, scale, zero)
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
