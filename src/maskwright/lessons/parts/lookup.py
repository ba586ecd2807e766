"""A dictionary that is read by attention: a key that is not there finds those that are spelled alike.

`table["jacky"]` is a KeyError; attention gives each key a weight by its likeness and returns the weighted mean of the
values. Likeness is that of spelling here: vectors count the pairs of neighboring letters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from ...core.errors import InputError
from ...nn.attention import scaled_dot_product

SHARPNESS = 40.0


@dataclass(frozen=True)
class Found:
    """What a soft look-up gives. weights: of each key; value: the weighted mean."""

    weights: dict[str, float]
    value: float


def soft_lookup(table: Mapping[str, float], key: str, sharpness: float = SHARPNESS) -> Found:
    """The value of `key` in `table`, by attention over its keys.

    sharpness: what likeness is multiplied by before the softmax; 0 gives the mean of all values, a large one the value
    of the likest key. Raises InputError for an empty table.
    """
    if not table:
        raise InputError("A soft look-up needs a table with at least one key.")
    vectors = spelling_vectors([key, *table])
    query, keys = vectors[:1], vectors[1:]
    values = torch.tensor(list(table.values()), dtype=torch.float64)[:, None]
    value, weights = scaled_dot_product(query * sharpness * keys.shape[1] ** 0.5, keys, values)
    return Found(dict(zip(table, weights[0].tolist(), strict=True)), float(value))


def spelling_vectors(words: Sequence[str]) -> Tensor:
    """A vector of length 1 for each word: how often each pair of neighboring characters, its ends included, stands in
    it. Returns float64 [words, pairs].
    """
    pairs = [[first + second for first, second in pairwise(f"\n{word}\n")] for word in words]
    place = {pair: index for index, pair in enumerate(dict.fromkeys(pair for own in pairs for pair in own))}
    counts = torch.zeros(len(words), len(place), dtype=torch.float64)
    for row, own in enumerate(pairs):
        for pair in own:
            counts[row, place[pair]] += 1
    return counts / counts.norm(dim=1, keepdim=True)
