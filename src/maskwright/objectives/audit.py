"""A batch as a person reads it: which position became what, which pair is real."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..data.batch import Batch

Fate = Literal["masked", "random", "kept", ""]


@dataclass(frozen=True)
class AuditedToken:
    """One position: the token that the model sees, the right one, and what was done ("" = not selected)."""

    shown: str
    original: str
    fate: Fate
    segment: int


@dataclass(frozen=True)
class AuditedSequence:
    """One example. follows: whether B follows A (None without pairs)."""

    tokens: tuple[AuditedToken, ...]
    follows: bool | None


def audit(batch: Batch, token_of: Callable[[int], str], mask_id: int) -> list[AuditedSequence]:
    """Undo a masked batch: every sequence with what happened to each of its tokens."""
    right = dict(zip(batch.labels["mlm_positions"].tolist(), batch.labels["mlm"].tolist(), strict=True))
    ids = batch.input_ids.tolist()
    types = batch.token_type_ids.tolist() if batch.token_type_ids is not None else [0] * len(ids)
    follows = [label == 0 for label in batch.labels["nsp"].tolist()] if "nsp" in batch.labels else None
    sequences, start = [], 0
    for number, length in enumerate(batch.lengths):
        tokens = tuple(
            AuditedToken(
                token_of(ids[place]),
                token_of(right.get(place, ids[place])),
                _fate(ids[place], right.get(place), mask_id),
                types[place],
            )
            for place in range(start, start + length)
        )
        sequences.append(AuditedSequence(tokens, follows[number] if follows is not None else None))
        start += length
    return sequences


def _fate(shown: int, right: int | None, mask_id: int) -> Fate:
    if right is None:
        return ""
    if shown == mask_id:
        return "masked"
    return "kept" if shown == right else "random"
