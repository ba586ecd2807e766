"""Full (bidirectional) attention for inference, on groups of sequences of equal length.

Five implementations return the same result; the sequence length selects the fastest. Four compute product, softmax and
product over all sequences and heads at once: the row softmax of torch is slow for short rows, and in bfloat16 for
lengths that are not a multiple of the vector width. The fifth is torch's fused kernel.
docs/explanation/decisions/inference-engine.md has the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ...models.device import cpu_has
from ...nn.runs import Run

# On a CPU: per dtype, implementations and the maximum length at which each is the fastest; above that the fused kernel.
# "columns": softmax over the columns of the transposed scores; "rows": over rows; "float": over rows in float32.
WAYS: dict[torch.dtype, tuple[tuple[int, str], ...]] = {
    torch.float32: ((23, "columns"), (55, "rows")),
    torch.bfloat16: ((15, "columns"), (191, "float"), (1023, "rows")),
}
# With AMX, bfloat16 uses the fused kernel from this length on, for every length that fills its tiles, and for a single
# sequence: torch computes it with AMX.
FUSED_BY_AMX = 100
AMX_TILE = 16  # rows
# A single sequence up to this length is computed in float32 ("wide"), without copies besides the conversion.
SINGLE: dict[torch.dtype, int] = {torch.bfloat16: 55}
# Larger score tensors are computed in parts that fit into the CPU cache.
CACHED_SCORES = {torch.float32: 1 << 17, torch.bfloat16: 1 << 19}


def packed_attention(qkv: Tensor, runs: Sequence[Run], num_heads: int) -> Tensor:
    """Compute softmax(q k^T / sqrt(head_dim)) v within each sequence of a packed batch.

    qkv: queries, keys and values of all heads, float [tokens, 3 * hidden]; runs: cover every token once, in order.
    Returns [tokens, hidden].
    """
    tokens, hidden = qkv.shape[0], qkv.shape[1] // 3
    context = qkv.new_empty(tokens, hidden)  # allocated, not written
    for start, count, length in runs:
        rows, way = slice(start, start + count * length), way_for(qkv, length, count)
        heads = qkv[rows].view(count, length, 3, num_heads, -1).permute(2, 0, 3, 1, 4)
        most = count if way == "fused" else max(1, CACHED_SCORES[qkv.dtype] // (num_heads * length * length))
        if len(runs) == 1 and count <= most:  # one part: nothing to collect
            return _part(heads, way).transpose(1, 2).reshape(tokens, hidden)
        output = context[rows].view(count, length, num_heads, -1).transpose(1, 2)  # [count, heads, length, head_dim]
        for first in range(0, count, most):
            output[first : first + most].copy_(_part(heads[:, first : first + most], way))
    return context


def way_for(qkv: Tensor, length: int, count: int) -> str:
    """Return the implementation for `count` sequences of `length` tokens: a name of WAYS, or "fused"."""
    fills_tiles = count == 1 or length >= FUSED_BY_AMX or length % AMX_TILE == 0
    if fills_tiles and qkv.dtype == torch.bfloat16 and cpu_has("amx_bf16"):
        return "fused"
    if count == 1 and length <= SINGLE.get(qkv.dtype, 0) and qkv.device.type == "cpu":
        return "wide"
    ways = WAYS.get(qkv.dtype, ()) if qkv.device.type == "cpu" else ()
    return next((way for longest, way in ways if length <= longest), "fused")


def _part(heads: Tensor, way: str) -> Tensor:
    """Compute attention at once.

    heads: float [3, count, heads, length, head_dim], a view. Returns [count, heads, length, head_dim].
    """
    if way == "fused":
        query, key, value = heads.unbind()  # each [count, heads, length, head_dim]
        return F.scaled_dot_product_attention(query, key, value)
    dtype, (_, count, num_heads, length, head_dim) = heads.dtype, heads.shape
    if way == "wide":
        query, key, value = heads[:, 0].float().unbind()  # each [heads, length, head_dim], in the order of the input
    else:
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
            weights = torch.softmax(scores, dim=-1)  # in place is slower with AVX-512
    return torch.bmm(weights, value).to(dtype).view(count, num_heads, length, head_dim)
