"""One vector for each sequence of a pack."""

from __future__ import annotations

import torch
from torch import Tensor

from ..data.batch import Batch


def mean_of(hidden: Tensor, batch: Batch) -> Tensor:
    """The mean of each sequence's vectors. hidden: float [tokens, hidden]. Returns float [sequences, hidden]."""
    lengths = torch.tensor(batch.lengths, device=hidden.device)
    sequence = torch.repeat_interleave(torch.arange(len(lengths), device=hidden.device), lengths)  # [tokens]
    sums = hidden.new_zeros(len(lengths), hidden.shape[1]).index_add(0, sequence, hidden)
    return sums / lengths[:, None]


def pool(vectors: Tensor, batch: Batch, pooling: str) -> Tensor:
    """One vector for each sequence of a pack.

    vectors: float [tokens, size]; pooling: "cls" (the first token), "mean" or "max" over all tokens, the special ones
    included, as sentence-transformers does. Returns float [sequences, size].
    """
    if pooling == "cls":
        return vectors[batch.first_tokens]
    parts = []
    for start, count, length in batch.runs:  # neighbours of equal length are a view
        block = vectors[start : start + count * length].view(count, length, -1)  # [count, length, size]
        parts.append(block.mean(dim=1) if pooling == "mean" else block.amax(dim=1))
    return torch.cat(parts)  # [sequences, size]
