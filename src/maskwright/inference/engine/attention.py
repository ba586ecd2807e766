"""Attention of the engine: forward only, all see all, each run of equal lengths as views of the one projection.

Four ways give the same numbers, and the length of a run decides. Three multiply, soft-max and multiply again in a few
kernels over all sequences and heads: torch's softmax over rows is slow where a row is short, or in bfloat16 where its
length is no multiple of a vector's. The fourth is torch's fused kernel. docs/decisions/inference-engine.md has the
measurements behind the lengths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ...nn.runs import Run

# On a CPU, for each dtype the ways with the length up to which each is the fastest; the fused kernel beyond the last.
# "columns": softmax over the columns of the transposed scores; "rows": over rows; "float": over rows, in float32.
WAYS: dict[torch.dtype, tuple[tuple[int, str], ...]] = {
    torch.float32: ((23, "columns"), (55, "rows")),
    torch.bfloat16: ((15, "columns"), (191, "float"), (1023, "rows")),
}
# A sequence alone, up to this length, goes to the fused kernel: one call costs less than the copies of the others. In
# float32 that gains nothing, and a text's numbers depend less on what stands beside it.
ALONE: dict[torch.dtype, int] = {torch.bfloat16: 55}
# Scores of more elements are worked on in parts that stay in the processor's cache.
CACHED_SCORES = {torch.float32: 1 << 17, torch.bfloat16: 1 << 19}


def attend_fixed(qkv: Tensor, runs: Sequence[Run], num_heads: int) -> Tensor:
    """softmax(q k^T / sqrt(head_dim)) v inside each sequence of a pack.

    qkv: float [tokens, 3 * hidden], the queries, then keys, then values of all heads; runs: cover every token once, in
    order. Returns [tokens, hidden].
    """
    tokens, hidden = qkv.shape[0], qkv.shape[1] // 3
    context = qkv.new_empty(tokens, hidden)
    for start, count, length in runs:
        own = slice(start, start + count * length)
        heads = qkv[own].view(count, length, 3, num_heads, -1).permute(2, 0, 3, 1, 4)
        place = context[own].view(count, length, num_heads, -1).transpose(1, 2)  # [count, heads, length, head_dim]
        way = way_for(qkv, length, count)
        if way == "fused":
            query, key, value = heads.unbind()  # each [count, heads, length, head_dim]
            place.copy_(F.scaled_dot_product_attention(query, key, value))
            continue
        most = max(1, CACHED_SCORES[qkv.dtype] // (num_heads * length * length))
        for first in range(0, count, most):
            place[first : first + most].copy_(_multiplied(heads[:, first : first + most], way))
    return context


def way_for(qkv: Tensor, length: int, count: int) -> str:
    """The way for `count` sequences of `length` tokens: a name of WAYS, or "fused"."""
    if count == 1 and length <= ALONE.get(qkv.dtype, 0):
        return "fused"
    ways = WAYS.get(qkv.dtype, ()) if qkv.device.type == "cpu" else ()
    return next((way for longest, way in ways if length <= longest), "fused")


def _multiplied(heads: Tensor, way: str) -> Tensor:
    """heads: float [3, count, heads, length, head_dim], a view. Returns [count, heads, length, head_dim]."""
    _, count, num_heads, length, head_dim = heads.shape
    query, key, value = heads.reshape(3, count * num_heads, length, head_dim).unbind()  # one copy for all three
    scores = query.new_empty(count * num_heads, length, length)
    scale = 1.0 / math.sqrt(head_dim)
    if way == "columns":  # [keys, queries]
        torch.baddbmm(scores, key, query.mT, beta=0, alpha=scale, out=scores)
        weights = torch.softmax(scores, dim=-2, out=scores).mT
    else:  # [queries, keys]
        torch.baddbmm(scores, query, key.mT, beta=0, alpha=scale, out=scores)
        if way == "float":
            weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype)
        else:
            weights = torch.softmax(scores, dim=-1, out=scores)
    return torch.bmm(weights, value).view(count, num_heads, length, head_dim)
