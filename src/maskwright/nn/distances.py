"""A learned score for every distance between two tokens, in buckets (Raffel et al. 2020, section 2.1; MPNet)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NUM_BUCKETS = 32  # what the published models tell apart, half of them for each direction
MAX_DISTANCE = 128  # from here on all distances share the last bucket of their direction


def distance_buckets(distances: Tensor) -> Tensor:
    """The bucket of each distance. distances: int64 of any shape [...], key's place minus query's.

    Buckets 0 to 15 are for keys at or before the query, 16 to 31 for those behind it. Up to 7 places each distance
    has its own; from 8 to 127 they widen by equal factors: 8 + floor(8 log(n / 8) / log(16)).
    """
    each = NUM_BUCKETS // 2
    exact = each // 2
    length = distances.abs()
    # In float32, as the published models were trained: a bucket's edge falls where its rounding puts it.
    factor = torch.log(length.clamp(min=1).float() / exact) / math.log(MAX_DISTANCE / exact)
    wide = (exact + (factor * (each - exact)).long()).clamp(max=each - 1)
    return torch.where(length < exact, length, wide) + each * (distances > 0).long()


class DistanceBias(nn.Module):
    """A table of scores, one for each bucket and head, that attention adds before the softmax.

    weight: [num_buckets, heads]; rows beyond the 32 that the buckets name are kept, as published, and never read.
    """

    def __init__(self, num_buckets: int, num_heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_buckets, num_heads))

    def forward(self, query_places: Tensor, key_places: Tensor) -> Tensor:
        """Scores between places in a text. query_places: int64 [queries]; key_places: int64 [keys].

        Returns float [heads, queries, keys].
        """
        buckets = distance_buckets(key_places[None, :] - query_places[:, None])  # [queries, keys]
        return F.embedding(buckets, self.weight).permute(2, 0, 1)

    def extra_repr(self) -> str:
        """Sizes, for print."""
        return f"{self.weight.shape[0]} buckets x {self.weight.shape[1]} heads"
