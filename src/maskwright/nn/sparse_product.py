"""softmax(q k^T + bias) v over listed blocks, with a backward pass that stores neither weights nor gathered keys.

Autograd would store the gathered keys and values and the weights: at 4,096 tokens in BigBird's pattern, six times the
memory of queries, keys and values together. Here the backward pass gathers and multiplies again (as Dao et al. 2022 do
for full attention).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .dropout import dropout
from .function import Function


def block_product(
    query: Tensor, key: Tensor, value: Tensor, lists: Tensor | None, bias: Tensor | None, dropout_probability: float
) -> Tensor:
    """Attention to the listed blocks, or to all keys.

    query: float [count, heads, rows, block, head_dim] with lists, else [count, heads, queries, head_dim], scaled; key,
    value: float [count, heads, blocks, block, head_dim]; lists: int64 [heads or 1, rows, slots], or None; bias: float,
    broadcasts to [..., queries, keys], without gradient. Returns the shape of `query`.
    """
    result: Tensor = _BlockProduct.apply(query, key, value, lists, bias, dropout_probability)
    return result


def gather(blocks: Tensor, lists: Tensor | None) -> Tensor:
    """Gathers the listed blocks for each query block.

    blocks: [count, heads, blocks, block, head_dim]; lists: int64 [heads or 1, rows, slots]. Returns [count, heads,
    rows, slots * block, head_dim]; without lists, all keys: [count, heads, size, head_dim].
    """
    if lists is None:
        return blocks.flatten(2, 3)
    count, heads, num_blocks, block, head_dim = blocks.shape
    flat = blocks.reshape(count * heads * num_blocks, block * head_dim)
    gathered = flat.index_select(0, _flat_index(blocks.shape, lists))
    return gathered.view(count, heads, lists.shape[1], lists.shape[2] * block, head_dim)


def _scatter(gradient: Tensor, shape: torch.Size, lists: Tensor | None) -> Tensor:
    """The backward pass of `gather`: sums the gradients of each block of [count, heads, blocks, block, head_dim]."""
    if lists is None:
        return gradient.view(shape)
    count, heads, num_blocks, block, head_dim = shape
    total = gradient.new_zeros(count * heads * num_blocks, block * head_dim)
    total.index_add_(0, _flat_index(shape, lists), gradient.reshape(-1, block * head_dim))
    return total.view(shape)


def _flat_index(shape: torch.Size, lists: Tensor) -> Tensor:
    """Lists as row indices of [count * heads * blocks, ...]: int64 [count * heads * rows * slots]."""
    count, heads, num_blocks = shape[:3]
    first = torch.arange(count * heads, device=lists.device).view(count, heads, 1, 1) * num_blocks
    return (first + lists).reshape(-1)


def _weights(query: Tensor, keys: Tensor, bias: Tensor | None) -> Tensor:
    """query: [..., queries, head_dim]; keys: [..., keys, head_dim]. Returns [..., queries, keys]."""
    scores = query @ keys.mT
    if bias is not None:
        scores += bias
    return torch.softmax(scores, dim=-1)


class _BlockProduct(Function):
    """Stores the inputs and, with dropout, one byte per weight."""

    @staticmethod
    def forward(
        context: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        lists: Tensor | None,
        bias: Tensor | None,
        dropout_probability: float,
    ) -> Tensor:
        """See `block_product` for the shapes: query [..., queries, head_dim], like the result."""
        weights = _weights(query, gather(key, lists), bias)
        keep = scale = None
        if dropout_probability > 0.0:
            factors = dropout(weights.new_ones(()).expand(weights.shape), dropout_probability)
            keep, scale = factors != 0, factors.amax()
            weights *= factors
        result = weights @ gather(value, lists)
        context.save_for_backward(query, key, value, lists, bias, keep, scale, result)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of q, k and v from that of the context, in the shape of query [..., queries, head_dim]."""
        query, key, value, lists, bias, keep, scale, result = context.saved_tensors
        gradient = gradients[0]
        keys = gather(key, lists)
        weights = _weights(query, keys, bias)
        of_scores = gradient @ gather(value, lists).mT  # [..., queries, keys], gradient of the weights so far
        dropped = weights
        if keep is not None:
            dropped = (weights * keep).mul_(scale)
            of_scores.mul_(keep).mul_(scale)
        of_value = _scatter(dropped.mT @ gradient, value.shape, lists)
        # Backward pass of softmax, w * (g - sum(w g)); the sum is the dot product of context and its gradient.
        of_scores.sub_((gradient * result).sum(-1, keepdim=True)).mul_(weights)
        of_key = _scatter(of_scores.mT @ query, key.shape, lists)
        return of_scores @ keys, of_key, of_value, None, None, None
