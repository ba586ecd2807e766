"""Full (bidirectional) attention for inference, on groups of sequences of equal length.

Several implementations return the same result up to rounding. The sequence length alone selects one, so that a text
does not depend on the other texts of a pack, to the last bit. All but torch's fused kernel compute product, softmax and
product over many sequences and heads at once: the row softmax of torch is slow for short rows, and in bfloat16 for
lengths that are not a multiple of the vector width.
docs/explanation/decisions/inference-engine.md has the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ...nn.attention import Executor, Run
from ...nn.native.library import cpu_has
from ...nn.positions import Angles

# On a CPU: per dtype, implementations and the maximum length at which each is the fastest; above that the fused kernel.
# "columns": softmax over the columns of the transposed scores; "rows": over rows; "float": over rows in float32.
# "wide": all in float32, which needs least time for a single sequence, and for several in parts that stay in the cache.
WAYS: dict[torch.dtype, tuple[tuple[int, str], ...]] = {
    torch.float32: ((23, "columns"), (55, "rows")),
    torch.bfloat16: ((15, "wide columns"), (55, "wide rows"), (191, "float"), (1023, "rows")),
}
WIDE_TOKENS = 128  # of a part
# The fused kernel is the fastest for lengths that fill its vectors or tiles: in float32 with AVX-512, in bfloat16 with
# AMX, and there also for every length from FUSED_BY_AMX on.
FILLED = 16
FUSED_BY_AMX = 100
# Larger score tensors are computed in parts that fit into the CPU cache.
CACHED_SCORES = {torch.float32: 1 << 17, torch.bfloat16: 1 << 19}


def packed_attention(qkv: Tensor, runs: Sequence[Run], num_heads: int) -> Tensor:
    """Compute softmax(q k^T / sqrt(head_dim)) v within each sequence of a packed batch.

    qkv: queries, keys and values of all heads, float [rows, 3 * hidden]; runs: cover every token once, in order; rows
    after them are padding. Returns [rows, hidden], 0 for padding.
    """
    rows_of_pack, hidden, tokens = qkv.shape[0], qkv.shape[1] // 3, runs[-1].stop
    context = qkv.new_empty(rows_of_pack, hidden)  # allocated, not written
    if tokens < rows_of_pack:
        context[tokens:].zero_()
    for start, count, length in runs:
        rows, way = slice(start, start + count * length), way_for(qkv, length)
        heads = qkv[rows].view(count, length, 3, num_heads, -1).permute(2, 0, 3, 1, 4)
        most = _sequences_at_once(way, count, length, num_heads, qkv.dtype)
        if tokens == rows_of_pack and len(runs) == 1 and count <= most:  # one part: nothing to collect
            return _part(heads, way).transpose(1, 2).reshape(tokens, hidden)
        output = context[rows].view(count, length, num_heads, -1).transpose(1, 2)  # [count, heads, length, head_dim]
        for first in range(0, count, most):
            output[first : first + most].copy_(_part(heads[:, first : first + most], way))
    return context


ROTATED_TOKENS = 128  # at once: in float32 they stay in the cache


def rotated_attention(
    qkv: Tensor,
    runs: Sequence[Run],
    num_heads: int,
    *,
    angles: Angles,
    executor: Executor | None,
    dropout_probability: float,
    want_weights: bool,
) -> tuple[Tensor, tuple[Tensor, ...] | None]:
    """`nn.positions.attend_rotary` that changes `qkv` in place; executor None: `packed_attention`."""
    cosine, sine, neighbors, values = angles
    every = qkv, cosine[:, None, None], sine[:, None, None]
    for part, cos, sin in zip(*(one.split(ROTATED_TOKENS) for one in every), strict=True):
        turned = part.view(len(part), 3, num_heads, -1)[:, : 3 if values else 2]  # [tokens, 2 or 3, heads, head_dim]
        first, second = (turned[..., ::2], turned[..., 1::2]) if neighbors else turned.chunk(2, dim=-1)
        x, y = first.to(cos.dtype), second.to(cos.dtype)
        both = torch.addcmul(x * cos, y, sin, value=-1), torch.addcmul(y * cos, x, sin)
        first.copy_(both[0])
        second.copy_(both[1])
    if executor is None:
        return packed_attention(qkv, runs, num_heads), None
    return executor(qkv, runs, num_heads, dropout_probability=dropout_probability, want_weights=want_weights)


def way_for(qkv: Tensor, length: int) -> str:
    """Return the implementation for sequences of `length` tokens: a name of WAYS, or "fused"."""
    fills = length % FILLED == 0
    if qkv.device.type != "cpu" or (qkv.dtype == torch.float32 and fills and cpu_has("avx512_f")):
        return "fused"
    if qkv.dtype == torch.bfloat16 and (fills or length >= FUSED_BY_AMX) and cpu_has("amx_bf16"):
        return "fused"
    return next((way for longest, way in WAYS.get(qkv.dtype, ()) if length <= longest), "fused")


def _sequences_at_once(way: str, count: int, length: int, num_heads: int, dtype: torch.dtype) -> int:
    if way == "fused":
        return count
    if way.startswith("wide"):
        return max(1, WIDE_TOKENS // length)
    return max(1, CACHED_SCORES[dtype] // (num_heads * length * length))


def _part(heads: Tensor, way: str) -> Tensor:
    """Compute attention at once.

    heads: float [3, count, heads, length, head_dim], a view. Returns [count, heads, length, head_dim].
    """
    if way == "fused":
        query, key, value = heads.unbind()  # each [count, heads, length, head_dim]
        return F.scaled_dot_product_attention(query, key, value)
    dtype, (_, count, num_heads, length, head_dim) = heads.dtype, heads.shape
    if way.startswith("wide"):
        heads = heads.to(torch.float32, memory_format=torch.contiguous_format)
    query, key, value = heads.reshape(3, count * num_heads, length, head_dim).unbind()  # one copy for all three
    scores = query.new_empty(count * num_heads, length, length)
    scale = 1.0 / math.sqrt(head_dim)
    if way.endswith("columns"):  # [keys, queries]
        torch.baddbmm(scores, key, query.mT, beta=0, alpha=scale, out=scores)
        weights = torch.softmax(scores, dim=-2, out=scores).mT
    else:  # [queries, keys]
        torch.baddbmm(scores, query, key.mT, beta=0, alpha=scale, out=scores)
        if way == "float":
            weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype)
        else:
            weights = torch.softmax(scores, dim=-1)  # in place is slower with AVX-512
    return torch.bmm(weights, value).to(dtype).view(count, num_heads, length, head_dim)
