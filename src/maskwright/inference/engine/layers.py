"""Matrix products and layer norms with weights that are cast and packed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ...models.adapters import SharedWeights
from ...models.model import Model
from ...nn.layers import FeedForward, LayerNorm, Linear, LoraLinear, RMSNorm, gelu, gelu_new, linear
from . import operators

Activation = Callable[[Tensor], Tensor]

# Names of activation functions, for operators with a fused activation.
NAMES: dict[Activation, str] = {
    gelu: "gelu",
    gelu_new: "gelu_new",
    linear: "none",
    F.relu: "relu",
    F.silu: "silu",
    torch.tanh: "tanh",
    torch.sigmoid: "sigmoid",
}
# Activations in place: for large results, a second tensor takes longer than the function.
IN_PLACE: dict[Activation, Activation] = {
    gelu: torch.ops.aten.gelu_.default,
    gelu_new: partial(torch.ops.aten.gelu_.default, approximate="tanh"),
    linear: linear,
    F.relu: F.relu_,
    F.silu: partial(F.silu, inplace=True),
    torch.tanh: torch.tanh_,
    torch.sigmoid: torch.sigmoid_,
}


class Product(Protocol):
    """Computes act(x W^T + b) with prepacked weights."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return act(x W^T + b). x: float [tokens, in_size]; result: float [tokens, out_size]."""

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return x W^T + b + residual, without activation. residual and result: [tokens, out_size]."""


class PlainProduct:
    """Uses torch's public operators, in any dtype and on any device; weights are cast once."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, act: Activation | None = None) -> None:
        self.weight = weight.detach().to(dtype)
        self.bias = None if bias is None else bias.detach().to(dtype)
        self.act = None if act is None else IN_PLACE.get(act, act)

    def __call__(self, x: Tensor) -> Tensor:
        """Return act(x W^T + b). x: float [tokens, in_size]; result: [tokens, out_size]."""
        result = F.linear(x, self.weight, self.bias)
        return result if self.act is None else self.act(result)

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return x W^T + b + residual. x: float [tokens, in_size]; residual and result: [tokens, out_size]."""
        return F.linear(x, self.weight, self.bias).add_(residual)

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        """Return (x W^T + b) * other, without activation. other and result: [tokens, out_size]."""
        return F.linear(x, self.weight, self.bias).mul_(other)


class RowProduct(PlainProduct):
    """A float32 product for single rows on a CPU, which is bound by memory bandwidth.

    torch reads a matrix fastest along its longer side, faster than prepacked. So a matrix with more outputs than inputs
    is transposed on first use. Several rows use the plain product.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, act: Activation | None = None) -> None:
        super().__init__(weight, bias, dtype, act)
        self.is_wide = weight.shape[0] > weight.shape[1]
        self._transposed: Tensor | None = None  # [in_size, out_size]

    def __call__(self, x: Tensor) -> Tensor:
        """Return act(x W^T + b). x: float [tokens, in_size]; result: [tokens, out_size]."""
        if not self.is_wide or len(x) != 1:
            return super().__call__(x)
        if self._transposed is None:
            self._transposed = self.weight.t().contiguous()
        result = x @ self._transposed if self.bias is None else torch.addmm(self.bias, x, self._transposed)
        return result if self.act is None else self.act(result)


class PackedProduct:
    """Uses oneDNN in float32 or bfloat16 on a CPU: prepacked weights; bias, activation and addition are fused."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, act: Activation | None = None) -> None:
        self.packed = operators.pack(weight.detach().to(dtype))
        self.bias = None if bias is None else bias.detach().to(dtype)
        self.fused = "none" if act is None else NAMES.get(act)
        self.act = act

    def __call__(self, x: Tensor) -> Tensor:
        """Return act(x W^T + b). x: float [tokens, in_size]; result: [tokens, out_size]."""
        if self.fused is not None:
            return operators.product(x, self.packed, self.bias, self.fused)
        assert self.act is not None
        return self.act(operators.product(x, self.packed, self.bias))

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return x W^T + b + residual. x: float [tokens, in_size]; residual and result: [tokens, out_size]."""
        return operators.product_and(x, residual, self.packed, self.bias, "add")

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        """Return (x W^T + b) * other, without activation. other and result: [tokens, out_size]."""
        return operators.product_and(x, other, self.packed, self.bias, "mul")


class InferenceFeedForward:
    """Computes down(act(up(x))), or down(act(first(x)) * second(x)) if gated, plus the residual."""

    def __init__(self, kind: type[PlainProduct] | type[PackedProduct], ffn: FeedForward, dtype: torch.dtype) -> None:
        weight: Tensor = ffn.up.weight
        bias: Tensor | None = ffn.up.bias
        self.other: PlainProduct | PackedProduct | None = None
        if ffn.gated:  # the first half of `up` is activated, the second half is the gate
            weight, second = weight.chunk(2)
            bias, second_bias = (None, None) if bias is None else bias.chunk(2)
            self.other = kind(second, second_bias, dtype)
        self.up = kind(weight, bias, dtype, ffn.act)
        self.down = kind(ffn.down.weight, ffn.down.bias, dtype)

    def __call__(self, x: Tensor, residual: Tensor) -> Tensor:
        """Apply the layer and add the residual. x, residual and result: float [tokens, hidden]."""
        inner = self.up(x)  # [tokens, intermediate]
        if self.other is not None:
            inner = self.other.times(x, inner)
        return self.down.plus(inner, residual)


def activated(up: Tensor, act: Activation, gated: bool) -> Tensor:
    """Return the input of the second product of a feed-forward network.

    up: float [tokens, intermediate], or twice that if gated; result: [tokens, intermediate].
    """
    if not gated:
        return act(up)
    first, second = up.chunk(2, dim=-1)
    return act(first) * second  # [tokens, intermediate]


class KernelSet(Protocol):
    """Builds the matrix products of an inference encoder.

    dtype: of the hidden states; attention_dtype: of queries, keys and values.
    """

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def attention_dtype(self) -> torch.dtype: ...

    def num_rows(self, tokens: int) -> int:
        """Number of rows to compute `tokens` tokens with; the further ones are padding."""

    def product(self, weight: Tensor, bias: Tensor | None, *, to_attention: bool = False) -> Product:
        """Build a product without activation. weight: float [out_size, in_size]; bias: [out_size]."""

    def feed_forward(self, ffn: FeedForward) -> Callable[[Tensor, Tensor], Tensor]:
        """Build a function of x and the residual. x, residual and result: float [tokens, hidden]."""


@dataclass(frozen=True)
class FloatKernels:
    """Kernels of one type in one dtype."""

    kind: type[PlainProduct] | type[PackedProduct]
    dtype: torch.dtype

    @property
    def attention_dtype(self) -> torch.dtype:
        """Same as `dtype`."""
        return self.dtype

    def num_rows(self, tokens: int) -> int:
        """See KernelSet."""
        return operators.num_rows(tokens) if self.kind is PackedProduct else tokens

    def product(self, weight: Tensor, bias: Tensor | None, *, to_attention: bool = False) -> Product:
        """See KernelSet."""
        return self.kind(weight, bias, self.dtype)

    def feed_forward(self, ffn: FeedForward) -> Callable[[Tensor, Tensor], Tensor]:
        """See KernelSet."""
        return InferenceFeedForward(self.kind, ffn, self.dtype)


@dataclass(frozen=True)
class Norm:
    """Layer norm with cast weights, or RMS norm. weight, bias: [size]; bias may be None."""

    weight: Tensor
    bias: Tensor | None
    eps: float
    is_rms: bool

    @classmethod
    def of(cls, module: LayerNorm, dtype: torch.dtype) -> Norm:
        """Build the norm from a module. On a CPU the weights keep their dtype, which its kernel mixes with bfloat16."""
        keep = module.weight.dtype if module.weight.device.type == "cpu" else dtype
        bias = None if module.bias is None else module.bias.detach().to(keep)
        return cls(module.weight.detach().to(keep), bias, module.eps, isinstance(module, RMSNorm))

    def __call__(self, x: Tensor) -> Tensor:
        """Normalize x: float [tokens, size]; returns the same shape and dtype."""
        if self.is_rms:
            return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


# -- Products of linear layers with adapters: the base's product, which adapters share, plus low-rank updates --------


class AdaptedProduct:
    """x W^T + b plus the updates (alpha / rank) B A x of a linear layer with LoRA (nn/layers.py)."""

    def __init__(self, product: Product, linear: LoraLinear, dtype: torch.dtype) -> None:
        self.product = product
        updates = linear.updates
        self.down = torch.cat([one.A.detach() for one in updates]).to(dtype)  # [sum of ranks, in_size]
        self.ranks = [len(one.A) for one in updates]
        self.parts = [(one.start, one.size, (one.B.detach() * one.scale).to(dtype)) for one in updates]

    def __call__(self, x: Tensor) -> Tensor:
        """x: float [tokens, in_size]; result: float [tokens, out_size]."""
        return self._add(self.product(x), x)

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """See Product."""
        return self._add(self.product.plus(x, residual), x)

    def _add(self, y: Tensor, x: Tensor) -> Tensor:
        inner = F.linear(x.to(self.down.dtype), self.down).split(self.ranks, dim=-1)  # each [tokens, rank]
        for (start, size, up), own in zip(self.parts, inner, strict=True):
            y.narrow(-1, start, size).add_(F.linear(own, up))
        return y


def linear_product(kernels: KernelSet, linear: Linear, *, to_attention: bool = False) -> Product:
    """Return the product of a linear layer, with its updates if it has any."""
    product = kernels.product(linear.weight, linear.whole_bias, to_attention=to_attention)
    return AdaptedProduct(product, linear, kernels.dtype) if isinstance(linear, LoraLinear) else product


def feed_forward(kernels: KernelSet, ffn: FeedForward) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function of x and the residual, all float [tokens, hidden]; see KernelSet."""
    if not isinstance(ffn.up, LoraLinear) and not isinstance(ffn.down, LoraLinear):
        return kernels.feed_forward(ffn)
    up, down = linear_product(kernels, ffn.up), linear_product(kernels, ffn.down)
    return lambda x, residual: down.plus(activated(up(x), ffn.act, ffn.gated), residual)


def shared_kernels(kernels: KernelSet, model: Model) -> KernelSet:
    """Return kernels whose products of a base's weights are made once for all its adapters; others unchanged."""
    shared = None if model.adapter is None else model.adapter.shared
    return kernels if shared is None else SharedKernels(kernels, shared)


@dataclass(frozen=True)
class SharedKernels:
    """Kernels that keep products of shared weights. kernels: makes them, comparable by value."""

    kernels: KernelSet
    shared: SharedWeights

    @property
    def dtype(self) -> torch.dtype:
        """See KernelSet."""
        return self.kernels.dtype

    @property
    def attention_dtype(self) -> torch.dtype:
        """See KernelSet."""
        return self.kernels.attention_dtype

    def num_rows(self, tokens: int) -> int:
        """See KernelSet."""
        return self.kernels.num_rows(tokens)

    def product(self, weight: Tensor, bias: Tensor | None, *, to_attention: bool = False) -> Product:
        """See KernelSet."""
        product: Product = self.shared.prepare(
            (weight, bias), self.kernels, lambda: self.kernels.product(weight, bias, to_attention=to_attention)
        )
        return product

    def feed_forward(self, ffn: FeedForward) -> Callable[[Tensor, Tensor], Tensor]:
        """See KernelSet."""
        weights = (ffn.up.weight, ffn.up.bias, ffn.down.weight, ffn.down.bias)
        result: Callable[[Tensor, Tensor], Tensor] = self.shared.prepare(
            weights, self.kernels, lambda: self.kernels.feed_forward(ffn)
        )
        return result
