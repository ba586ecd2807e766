"""Static int8: ranges of activations found once on texts, weights rounded to int8 row by row.

Numbers that enter a product are moved and divided channel by channel, so that a few wide channels do not cost the
others their digits: x_j becomes (x_j - middle_j) / (f_j * scale), where f_j = sqrt(range_j / largest |weight| of
column j) (SmoothQuant, Xiao et al. 2022, equation 4); the weights take f_j, the bias takes the middles, so nothing
changes but the rounding. What comes out of an activation stays uint8 for the next product, with one scale for all
channels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ...nn.feed_forward import FeedForward
from . import operators
from .layers import NAMES, Activation, PlainProduct, Product

Place = tuple[int, int]  # of a weight: its address and its elements


@dataclass(frozen=True)
class Int8Loss:
    """What int8 costs: cosines of the mean-pooled last layer to float32's, on texts that it was not calibrated on."""

    calibrated_on: int
    checked_on: int
    mean_cosine: float
    min_cosine: float

    def __str__(self) -> str:
        return (
            f"int8: vectors have a cosine of {self.mean_cosine:.4f} to float32's (at least {self.min_cosine:.4f}) on "
            f"{self.checked_on:,} texts beside the {self.calibrated_on:,} that it was calibrated on."
        )


def place_of(weight: Tensor) -> Place:
    """What tells a weight from all others of a model."""
    return weight.data_ptr(), weight.numel()


@dataclass
class Range:
    """The lowest and the highest number of each channel that entered a product: float32 [in_size] both."""

    low: Tensor
    high: Tensor

    def add(self, x: Tensor) -> None:
        """Widen it to hold x too: float [tokens, in_size]."""
        low, high = torch.aminmax(x.float(), dim=0)
        self.low, self.high = torch.minimum(self.low, low), torch.maximum(self.high, high)


class _Recorded(PlainProduct):
    """A float32 product that notes the range of what enters it."""

    def __init__(self, weight: Tensor, bias: Tensor | None, ranges: dict[Place, Range]) -> None:
        super().__init__(weight, bias, torch.float32)
        size = weight.shape[1]
        self.range = ranges.setdefault(
            place_of(weight), Range(torch.full((size,), torch.inf), torch.full((size,), -torch.inf))
        )

    def __call__(self, x: Tensor) -> Tensor:
        """x: float32 [tokens, in_size]. Returns [tokens, out_size]."""
        self.range.add(x)
        return super().__call__(x)

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """x: float32 [tokens, in_size]; residual: [tokens, out_size], as is the result."""
        self.range.add(x)
        return super().plus(x, residual)


@dataclass
class RecordingKit:
    """Products in float32 that note ranges, by the place of their weight."""

    ranges: dict[Place, Range] = field(default_factory=dict)
    dtype: torch.dtype = torch.float32
    attention_dtype: torch.dtype = torch.float32

    def product(self, weight: Tensor, bias: Tensor | None, *, to_attention: bool = False) -> Product:
        """See Kit."""
        return _Recorded(weight, bias, self.ranges)

    def feed_forward(self, ffn: FeedForward) -> Callable[[Tensor, Tensor], Tensor]:
        """See Kit."""
        up, down = self.product(ffn.up.weight, ffn.up.bias), self.product(ffn.down.weight, ffn.down.bias)
        return lambda x, residual: down.plus(_inner(up(x), ffn.act, ffn.gated), residual)


def _inner(up: Tensor, act: Activation, gated: bool) -> Tensor:
    """What enters the second product. up: float [tokens, intermediate], twice that if gated."""
    if not gated:
        return act(up)
    first, second = up.chunk(2, dim=-1)
    return act(first) * second  # [tokens, intermediate]


class Int8Product:
    """x W^T + b for float x: moved, divided, rounded, multiplied. It gives `dtype`."""

    def __init__(self, weight: Tensor, bias: Tensor | None, found: Range, dtype: torch.dtype) -> None:
        weight, self.dtype = weight.detach().float(), dtype
        middle, half = (found.high + found.low) / 2, (found.high - found.low) / 2
        half = half.clamp(min=max(1e-6 * float(half.max()), 1e-30))  # a channel that never moved
        factors = (half / weight.abs().amax(dim=0).clamp(min=1e-5)).sqrt()  # [in_size]
        scale = float((half / factors).max()) / 127
        moved = weight @ middle if bias is None else bias.detach().float() + weight @ middle
        self.weights = _rounded(weight * factors, moved, scale, 128)
        self.by = 1 / (factors * scale)
        self.start = -middle * self.by

    def numbers(self, x: Tensor) -> Tensor:
        """x as whole numbers: uint8 [tokens, in_size], 128 for the middle of each channel."""
        scaled = torch.addcmul(self.start, x.float(), self.by).clamp_(-127, 127).round_()
        return scaled.to(torch.int8).bitwise_xor_(-128).view(torch.uint8)  # +128, by turning the highest bit

    def __call__(self, x: Tensor) -> Tensor:
        """x: float [tokens, in_size]. Returns [tokens, out_size]."""
        return operators.int8_product(self.numbers(x), self.weights, self.dtype)

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """x: float [tokens, in_size]; residual: float32 [tokens, out_size], as is the result."""
        return operators.int8_product_plus(self.numbers(x), residual, self.weights)


class Int8FeedForward:
    """Both products in int8; the numbers between them stay whole where the product has the activation built in."""

    def __init__(self, ffn: FeedForward, up: Range, down: Range) -> None:
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
        self.weights = _rounded(ffn.down.weight.detach().float(), start, self.scale, self.zero)

    def __call__(self, x: Tensor, residual: Tensor) -> Tensor:
        """x, residual: float32 [tokens, hidden], as is the result."""
        if self.down is not None:
            return self.down.plus(_inner(self.up(x), self.act, self.gated), residual)
        assert self.name is not None
        numbers = self.up.numbers(x)
        inner = operators.int8_product_act(numbers, self.up.weights, self.name, self.scale, self.zero)
        return operators.int8_product_plus(inner, residual, self.weights)


@dataclass(frozen=True)
class Int8Kit:
    """int8 products; hidden states stay float32. ranges: what a RecordingKit found; attention_dtype: what the
    processor multiplies fastest.
    """

    ranges: Mapping[Place, Range]
    attention_dtype: torch.dtype
    dtype: torch.dtype = torch.float32

    def product(self, weight: Tensor, bias: Tensor | None, *, to_attention: bool = False) -> Product:
        """See Kit."""
        dtype = self.attention_dtype if to_attention else self.dtype
        return Int8Product(weight, bias, self.ranges[place_of(weight)], dtype)

    def feed_forward(self, ffn: FeedForward) -> Callable[[Tensor, Tensor], Tensor]:
        """See Kit."""
        up, down = (self.ranges[place_of(one.weight)] for one in (ffn.up, ffn.down))
        return Int8FeedForward(ffn, up, down)


def _rounded(weight: Tensor, bias: Tensor, x_scale: float, x_zero: int) -> operators.Int8Weights:
    """weight: float32 [out_size, in_size], rounded to 127 steps each way of every row's largest; bias: [out_size]."""
    scales = weight.abs().amax(dim=1).clamp(min=1e-30) / 127  # [out_size]
    numbers = (weight / scales[:, None]).round().clamp(-127, 127).to(torch.int8)
    zeros = torch.zeros(len(scales), dtype=torch.int32)
    return operators.Int8Weights(operators.pack_int8(numbers), scales, zeros, bias, x_scale, x_zero)
