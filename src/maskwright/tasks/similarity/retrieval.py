"""Whether the second text of a pair is found among all second texts."""

from __future__ import annotations

from torch import Tensor

BLOCK_ROWS = 1024


def finds_its_pair(logits: Tensor, is_positive: Tensor) -> Tensor:
    """Whether each positive pair ranks its second text first: bool [positives]. logits: float [rows, rows]."""
    rows = is_positive.nonzero().flatten()
    return logits[rows].argmax(dim=-1) == rows


def retrieval_accuracy(logits: Tensor, is_positive: Tensor, groups: Tensor) -> float:
    """Fraction of first texts whose second text (or a duplicate of it) is the nearest of all second texts.

    logits: float [rows, 2, size]; is_positive: bool [rows]; groups: int64 [rows], duplicate groups of the second texts.
    """
    rows, right = is_positive.nonzero().flatten(), 0
    for start in range(0, len(rows), BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        nearest = (logits[block, 0] @ logits[:, 1].T).argmax(dim=-1)
        right += int((groups[nearest] == groups[block]).sum())
    return right / max(len(rows), 1)
