"""The explicit product for long sequences in training: queries in blocks, whose scores are made twice.

softmax(q k^T / sqrt(head_dim)) v needs the scores of one query at a time. With dropout torch's fused CPU kernel cannot
serve, and the scores of all queries, [heads, tokens, tokens] and as much again for each step between them, leave the
processor's cache and fill the memory. So the queries go through in blocks whose scores stay in the cache, and the
backward pass computes each block again, with the same dropout, in place of keeping it (Rabe and Staats 2021, section 3;
Chen et al. 2016): a third more multiplications, memory that grows with the tokens instead of with their square.
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
    """The context of `scaled_dot_product`, block of queries by block.

    query, key, value: float [count, heads, tokens, head_dim]; causal: no token sees a later one; most: elements of the
    scores of one block. Returns the shape of query.
    """
    count, heads, tokens, _ = query.shape
    rows = max(1, most // (count * heads * tokens))
    blocks = []
    for first in range(0, tokens, rows):
        last = tokens if not causal else min(first + rows, tokens)  # a block sees nothing after its own end
        part = query[:, :, first : first + rows], key[:, :, :last], value[:, :, :last]
        blocks.append(checkpoint(_block, *part, dropout_probability, first if causal else None, use_reentrant=False))
    return torch.cat(blocks, dim=2)


def _block(query: Tensor, key: Tensor, value: Tensor, dropout_probability: float, first: int | None) -> Tensor:
    """query: float [count, heads, rows, head_dim]; key, value: [count, heads, seen, head_dim]; first: where the block
    begins, if no query sees a later key. Returns the shape of query.
    """
    scores = (query * (1.0 / math.sqrt(query.shape[-1]))) @ key.mT  # [count, heads, rows, seen]
    if first is not None:
        is_later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(first + 1)
        scores.masked_fill_(is_later, -math.inf)
    return dropout(torch.softmax(scores, dim=-1), dropout_probability) @ value
