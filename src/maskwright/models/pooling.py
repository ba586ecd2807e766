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
