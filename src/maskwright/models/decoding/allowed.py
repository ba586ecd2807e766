"""Next tokens that a rule allows, where what was written decides it, text by text: a tree stays a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import torch
from torch import Tensor

from .rules import highest

MayCome = Callable[[int], bool]
Allows = Callable[[int, list[int]], MayCome]  # the number of a text, what was written for it -> which token may come
LOOKED = 64  # tokens that are asked about first; the rest of the vocabulary only where none of these may come


def of_texts(allows: Allows, numbers: Sequence[int]) -> Allows:
    """The same for some of the texts, counted anew."""

    def own(text: int, ids: list[int]) -> MayCome:
        """Ask by the number that the text had."""
        return allows(numbers[text], ids)

    return own


def highest_allowed(shares: Tensor, few: int, rules: Sequence[MayCome | None]) -> tuple[Tensor, Tensor]:
    """The `few` highest allowed scores of each row and their places, [rows, few] each; -inf where there are fewer.

    shares: float [rows, vocab], -inf for what is never taken; rules: of each row, None for one that does not count.
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
