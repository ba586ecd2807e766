"""Products of linear layers with adapters: the base's product, which adapters share, plus low-rank updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ...models.adapters import SharedWeights
from ...models.model import Model
from ...nn.feed_forward import FeedForward
from ...nn.linear import Linear
from ...nn.lora import LoraLinear
from .layers import KernelSet, Product, activated


class AdaptedProduct:
    """x W^T + b plus the updates (alpha / rank) B A x of a linear layer with LoRA (nn/lora.py)."""

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
    product = kernels.product(linear.weight, linear.bias, to_attention=to_attention)
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
