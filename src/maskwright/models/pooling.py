"""Pooling of token vectors to one vector per sequence, and per text of several sequences."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..data.batch import Batch

LEAST_LENGTH = 1e-12  # of a vector in a division


def mean_of(hidden: Tensor, batch: Batch) -> Tensor:
    """The mean of each sequence's vectors. hidden: float [tokens, hidden]. Returns float [sequences, hidden]."""
    lengths = torch.tensor(batch.lengths, device=hidden.device)
    sequence = torch.repeat_interleave(torch.arange(len(lengths), device=hidden.device), lengths)  # [tokens]
    sums = hidden.new_zeros(len(lengths), hidden.shape[1]).index_add(0, sequence, hidden)
    return sums / lengths[:, None]


def pool(vectors: Tensor, batch: Batch, pooling: str, normalize_tokens: bool = False) -> Tensor:
    """Pools each sequence of a pack to one vector.

    vectors: float [tokens, size]; pooling: "cls" (the first token), "mean" or "max" over all tokens, including special
    tokens, as in sentence-transformers; normalize_tokens: scale the tokens to length 1 first. Returns float
    [sequences, size].
    """
    vectors = unit_length(vectors) if normalize_tokens else vectors
    if pooling == "cls":
        return vectors[batch.first_tokens]
    parts = []
    for start, count, length in batch.runs:  # neighbors of equal length are a view
        block = vectors[start : start + count * length].view(count, length, -1)  # [count, length, size]
        parts.append(block.mean(dim=1) if pooling == "mean" else block.amax(dim=1))
    return parts[0] if len(parts) == 1 else torch.cat(parts)  # [sequences, size]


def unit_length(vectors: Tensor) -> Tensor:
    """Scales vectors to length 1, with the numbers of `torch.nn.functional.normalize`, in fewer operations.

    vectors: float [..., size], as the result. A vector of zeros stays.
    """
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / lengths.clamp_min_(LEAST_LENGTH)


def state_of(vectors: Tensor, batch: Batch, both_ends: bool) -> Tensor:
    """The final state of a recurrent network for each sequence.

    vectors: float [tokens, size] of a layer; both_ends: whether it is bidirectional: then the first half comes from the
    last token and the second half from the first token; else all from the last token. Returns float [sequences, size].
    """
    last = vectors[batch.last_tokens]
    if not both_ends:
        return last
    half = vectors.shape[1] // 2
    return torch.cat([last[:, :half], vectors[batch.first_tokens, half:]], dim=-1)


def join_windows(vectors: Tensor, lengths: Tensor, counts: Sequence[int], pooling: str) -> Tensor:
    """Combines window embeddings of each text: their mean, weighted by tokens, or for "max" the maximum.

    vectors: float [windows, size], text by text; lengths: int64 [windows], tokens of each; counts: windows of each
    text, at least 1; pooling: how the window vectors were pooled. Returns float [texts, size]; with one window, the
    embedding is unchanged, bit for bit.
    """
    if len(vectors) == len(counts):
        return vectors
    found = [
        own.amax(dim=0) if pooling == "max" else (own * (sizes / sizes.sum())[:, None].to(own.dtype)).sum(dim=0)
        for own, sizes in zip(vectors.split(list(counts)), lengths.to(vectors.device).split(list(counts)), strict=True)
    ]
    return torch.stack(found)  # [texts, size]
