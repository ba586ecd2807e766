"""The parts of a network whose weights are fixed: products and norms, cast and packed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ...nn.activations import gelu, gelu_new, linear
from ...nn.feed_forward import FeedForward
from ...nn.linear import LayerNorm
from . import operators

Activation = Callable[[Tensor], Tensor]

# Which activation a function is, for operators that have it built in.
NAMES: dict[Activation, str] = {
    gelu: "gelu",
    gelu_new: "gelu_new",
    linear: "none",
    F.relu: "relu",
    F.silu: "silu",
    torch.tanh: "tanh",
    torch.sigmoid: "sigmoid",
}


class Product(Protocol):
    """act(x W^T + b) with fixed weights."""

    def __call__(self, x: Tensor) -> Tensor:
        """x: float [tokens, in_size]. Returns float [tokens, out_size]."""

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """x W^T + b + residual, without activation. residual: [tokens, out_size], as is the result."""


class PlainProduct:
    """By torch's public operators, in any dtype and on any device; weights are cast once."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, act: Activation | None = None) -> None:
        self.weight = weight.detach().to(dtype)
        self.bias = None if bias is None else bias.detach().to(dtype)
        self.act = act

    def __call__(self, x: Tensor) -> Tensor:
        """x: float [tokens, in_size]. Returns [tokens, out_size]."""
        result = F.linear(x, self.weight, self.bias)
        return result if self.act is None else self.act(result)

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """x: float [tokens, in_size]; residual: [tokens, out_size], as is the result."""
        return F.linear(x, self.weight, self.bias).add_(residual)

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        """(x W^T + b) * other, without activation. other: [tokens, out_size], as is the result."""
        return F.linear(x, self.weight, self.bias).mul_(other)


class RowProduct(PlainProduct):
    """For one row at a time, in float32 on a CPU, where reading the weights is all the time it takes.

    torch reads a matrix fastest along its longer side, and faster so than packed: a wide one is kept the other way
    round, from its first row on, and a tall one is the module's own. Several rows are a plain product.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, act: Activation | None = None) -> None:
        super().__init__(weight, bias, dtype, act)
        self.is_wide = weight.shape[0] > weight.shape[1]
        self._turned: Tensor | None = None  # [in_size, out_size]

    def __call__(self, x: Tensor) -> Tensor:
        """x: float [tokens, in_size]. Returns [tokens, out_size]."""
        if not self.is_wide or len(x) != 1:
            return super().__call__(x)
        if self._turned is None:
            self._turned = self.weight.t().contiguous()
        result = x @ self._turned if self.bias is None else torch.addmm(self.bias, x, self._turned)
        return result if self.act is None else self.act(result)


class PackedProduct:
    """By oneDNN, float32 or bfloat16 on a CPU: weights packed once; bias, activation, addition inside the product."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, act: Activation | None = None) -> None:
        self.packed = operators.pack(weight.detach().to(dtype))
        self.bias = None if bias is None else bias.detach().to(dtype)
        self.fused = "none" if act is None else NAMES.get(act)
        self.act = act

    def __call__(self, x: Tensor) -> Tensor:
        """x: float [tokens, in_size]. Returns [tokens, out_size]."""
        if self.fused is not None:
            return operators.product(x, self.packed, self.bias, self.fused)
        assert self.act is not None
        return self.act(operators.product(x, self.packed, self.bias))

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """x: float [tokens, in_size]; residual: [tokens, out_size], as is the result."""
        return operators.product_and(x, residual, self.packed, self.bias, "add")

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        """(x W^T + b) * other, without activation. other: [tokens, out_size], as is the result."""
        return operators.product_and(x, other, self.packed, self.bias, "mul")


class FixedFeedForward:
    """down(act(up(x))), or down(act(first(x)) * second(x)) where the network is gated, plus the residual."""

    def __init__(self, kind: type[PlainProduct] | type[PackedProduct], ffn: FeedForward, dtype: torch.dtype) -> None:
        weight: Tensor = ffn.up.weight
        bias: Tensor | None = ffn.up.bias
        self.other: PlainProduct | PackedProduct | None = None
        if ffn.gated:  # the first half of `up` goes through the activation, the second multiplies it
            weight, second = weight.chunk(2)
            bias, second_bias = (None, None) if bias is None else bias.chunk(2)
            self.other = kind(second, second_bias, dtype)
        self.up = kind(weight, bias, dtype, ffn.act)
        self.down = kind(ffn.down.weight, ffn.down.bias, dtype)

    def __call__(self, x: Tensor, residual: Tensor) -> Tensor:
        """x, residual: float [tokens, hidden], as is the result."""
        inner = self.up(x)  # [tokens, intermediate]
        if self.other is not None:
            inner = self.other.times(x, inner)
        return self.down.plus(inner, residual)


class Kit(Protocol):
    """What a fixed encoder is made with.

    dtype: of the hidden states; attention_dtype: of queries, keys and values.
    """

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def attention_dtype(self) -> torch.dtype: ...

    def product(self, weight: Tensor, bias: Tensor | None, *, to_attention: bool = False) -> Product:
        """A product without activation. weight: float [out_size, in_size]; bias: [out_size]."""

    def feed_forward(self, ffn: FeedForward) -> Callable[[Tensor, Tensor], Tensor]:
        """A function of x and what is added at the end, both float [tokens, hidden], as is its result."""


@dataclass(frozen=True)
class FloatKit:
    """Products of one kind in one dtype."""

    kind: type[PlainProduct] | type[PackedProduct]
    dtype: torch.dtype

    @property
    def attention_dtype(self) -> torch.dtype:
        """The same."""
        return self.dtype

    def product(self, weight: Tensor, bias: Tensor | None, *, to_attention: bool = False) -> Product:
        """See Kit."""
        return self.kind(weight, bias, self.dtype)

    def feed_forward(self, ffn: FeedForward) -> Callable[[Tensor, Tensor], Tensor]:
        """See Kit."""
        return FixedFeedForward(self.kind, ffn, self.dtype)


@dataclass(frozen=True)
class Norm:
    """Layer norm with fixed weights. weight, bias: [size]; bias may be None."""

    weight: Tensor
    bias: Tensor | None
    eps: float

    @classmethod
    def of(cls, module: LayerNorm, dtype: torch.dtype) -> Norm:
        """That of a module. On a CPU the weights stay as they are: its kernel takes them beside bfloat16."""
        keep = module.weight.dtype if module.weight.device.type == "cpu" else dtype
        bias = None if module.bias is None else module.bias.detach().to(keep)
        return cls(module.weight.detach().to(keep), bias, module.eps)

    def __call__(self, x: Tensor) -> Tensor:
        """x: float [tokens, size]. Returns the same shape and dtype."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
