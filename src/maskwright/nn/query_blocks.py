"""Explicit attention for long sequences in training: blocks of queries, recomputed in the backward pass.

torch's fused CPU kernel does not support dropout, and the scores of all queries, [heads, tokens, tokens] plus as many
for each intermediate result, exceed the CPU cache and use much memory. Each block of queries has scores that fit the
cache; the backward pass recomputes it, with the same dropout, instead of storing it (Rabe and Staats 2021, section 3;
Chen et al. 2016). This takes a third more multiplications, and memory is linear instead of quadratic in the tokens.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .dropout import dropout


def attend_in_blocks(
    query: Tensor, key: Tensor, value: Tensor, dropout_probability: float, causal: bool, most: int
) -> Tensor:
    """The context of `scaled_dot_product`, computed in blocks of queries.

    query, key, value: float [count, heads, tokens, head_dim]; causal: no token attends to a later one; most: maximum
    score elements of one block. Returns the shape of query.
    """
    count, heads, tokens, _ = query.shape
    rows = max(1, most // (count * heads * tokens))
    blocks = []
    for first in range(0, tokens, rows):
        last = tokens if not causal else min(first + rows, tokens)  # no attention beyond the end of the block
        part = query[:, :, first : first + rows], key[:, :, :last], value[:, :, :last]
        blocks.append(checkpoint(_block, *part, dropout_probability, first if causal else None, use_reentrant=False))
    return torch.cat(blocks, dim=2)


def _block(query: Tensor, key: Tensor, value: Tensor, dropout_probability: float, first: int | None) -> Tensor:
    """query: float [count, heads, rows, head_dim]; key, value: [count, heads, seen, head_dim]; first: first query of
    the block for causal attention, else None. Returns the shape of query.
    """
    scores = (query * (1.0 / math.sqrt(query.shape[-1]))) @ key.mT  # [count, heads, rows, seen]
    if first is not None:
        is_later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(first + 1)
        scores.masked_fill_(is_later, -math.inf)
    return dropout(torch.softmax(scores, dim=-1), dropout_probability) @ value
