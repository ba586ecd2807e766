"""Constrained decoding: next tokens allowed by a rule on the generated tokens (such as a grammar)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import torch
from torch import Tensor

from .rules import highest

MayCome = Callable[[int], bool]
Allows = Callable[[int, list[int]], MayCome]  # text index, generated tokens -> which token is allowed next
LOOKED = 64  # most probable tokens checked first; the rest of the vocabulary only if none of these is allowed


def of_texts(allows: Allows, numbers: Sequence[int]) -> Allows:
    """Restricts a rule to some of the texts, with new indices."""

    def own(text: int, ids: list[int]) -> MayCome:
        """Maps to the original index of the text."""
        return allows(numbers[text], ids)

    return own


def highest_allowed(shares: Tensor, few: int, rules: Sequence[MayCome | None]) -> tuple[Tensor, Tensor]:
    """The `few` highest allowed scores of each row and their indices, [rows, few] each; -inf if there are fewer.

    shares: float [rows, vocab], -inf for banned tokens; rules: per row, None for a row to skip.
    """
    values, ids = shares.new_full((len(shares), few), -torch.inf), torch.zeros(len(shares), few, dtype=torch.int64)
    for row, rule in enumerate(rules):
        if rule is None:
            continue
        own = shares[row].cpu()
        near = highest(own[None], min(max(LOOKED, few), len(own)))[1][0].tolist()  # descending
        found = list(islice(filter(rule, near), few))
        if not found:
            found = list(islice(filter(rule, own.argsort(descending=True)[len(near) :].tolist()), 1))
        values[row, : len(found)] = own[found].to(values)
        ids[row, : len(found)] = torch.tensor(found, dtype=torch.int64)
    return values, ids.to(shares.device)
