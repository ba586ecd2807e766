"""Human-readable batches: what was masked or replaced, and which pairs are real."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..data.batch import Batch

Fate = Literal["masked", "random", "replaced", "kept", "next", ""]


@dataclass(frozen=True)
class AuditedToken:
    """One position: the input token, the original token, and the change.

    fate: "masked"; "random" (replaced by a random token); "replaced" (replaced by a generator's token); "kept"
    (selected but unchanged); "next" (target of next-token prediction); "" (not selected).
    """

    shown: str
    original: str
    fate: Fate
    segment: int


@dataclass(frozen=True)
class AuditedSequence:
    """One example. follows: whether B follows A; in_order: whether A and B are in order; None: not in the objective."""

    tokens: tuple[AuditedToken, ...]
    follows: bool | None
    in_order: bool | None = None


def audit(
    batch: Batch,
    token_of: Callable[[int], str],
    mask_id: int | None,
    changed: Fate = "random",
    unchanged: Fate = "kept",
) -> list[AuditedSequence]:
    """Reverses the masking of a batch: returns every sequence with the change of each token.

    mask_id: None if there is no [MASK]; changed, unchanged: fate of a selected token that is not masked and differs
    from, or equals, the original.
    """
    right = dict(zip(batch.labels["mlm_positions"].tolist(), batch.labels["mlm"].tolist(), strict=True))
    ids = batch.input_ids.tolist()
    types = batch.token_type_ids.tolist() if batch.token_type_ids is not None else [0] * len(ids)
    answers = {
        name: [label == 0 for label in batch.labels[name].tolist()] for name in ("nsp", "sop") if name in batch.labels
    }
    unknown = [None] * len(batch)
    follows, in_order = answers.get("nsp", unknown), answers.get("sop", unknown)
    sequences, start = [], 0
    for number, length in enumerate(batch.lengths):
        tokens = tuple(
            AuditedToken(
                token_of(ids[place]),
                token_of(right.get(place, ids[place])),
                _fate(ids[place], right.get(place), mask_id, changed, unchanged),
                types[place],
            )
            for place in range(start, start + length)
        )
        sequences.append(AuditedSequence(tokens, follows[number], in_order[number]))
        start += length
    return sequences


def _fate(shown: int, right: int | None, mask_id: int | None, changed: Fate, unchanged: Fate) -> Fate:
    if right is None:
        return ""
    if shown == mask_id:
        return "masked"
    return unchanged if shown == right else changed
