"""Attention of the engine: forward only, all see all, each run of equal lengths as views of the one projection.

Two ways, told apart by length. Short sequences are multiplied, soft-maxed and multiplied again in a few large kernels
over all sequences and heads of a run; the scale is inside the first product. Longer ones go through torch's fused
kernel. docs/decisions/inference-engine.md has the measurements behind the two lengths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ...nn.attention import CACHED_SCORES, Run

# From these lengths on the fused kernel wins on a CPU.
FUSED_FROM = {torch.float32: 24, torch.bfloat16: 1024}


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
        if is_fused(qkv, length):
            query, key, value = heads.unbind()  # each [count, heads, length, head_dim]
            place.copy_(F.scaled_dot_product_attention(query, key, value))
            continue
        most = max(1, CACHED_SCORES // (num_heads * length * length))
        for first in range(0, count, most):
            place[first : first + most].copy_(_multiplied(heads[:, first : first + most]))
    return context


def is_fused(qkv: Tensor, length: int) -> bool:
    """Whether sequences of `length` tokens go through torch's fused kernel."""
    return qkv.device.type != "cpu" or length >= FUSED_FROM.get(qkv.dtype, 0)


def _multiplied(heads: Tensor) -> Tensor:
    """heads: float [3, count, heads, length, head_dim], a view. Returns [count, heads, length, head_dim]."""
    _, count, num_heads, length, head_dim = heads.shape
    query, key, value = heads.reshape(3, count * num_heads, length, head_dim).unbind()  # one copy for all three
    scores = query.new_empty(count * num_heads, length, length)
    torch.baddbmm(scores, query, key.mT, beta=0, alpha=1.0 / math.sqrt(head_dim), out=scores)
    torch.softmax(scores, dim=-1, out=scores)
    return torch.bmm(scores, value).view(count, num_heads, length, head_dim)
