"""A dictionary lookup by attention: an unknown key finds keys with similar spelling.

`table["jacky"]` is a KeyError; attention weights each key by similarity and returns the weighted mean of the values.
Similarity is that of spelling: the vectors count character bigrams.
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
class SoftLookup:
    """Result of a soft lookup. weights: of each key; value: the weighted mean."""

    weights: dict[str, float]
    value: float


def soft_lookup(table: Mapping[str, float], key: str, sharpness: float = SHARPNESS) -> SoftLookup:
    """Look up `key` in `table` by attention over its keys.

    sharpness: factor of the similarity before the softmax; 0 returns the mean of all values, a large one the value of
    the most similar key. Raises InputError for an empty table.
    """
    if not table:
        raise InputError("A soft lookup needs a table with at least one key.")
    vectors = spelling_vectors([key, *table])
    query, keys = vectors[:1], vectors[1:]
    values = torch.tensor(list(table.values()), dtype=torch.float64)[:, None]
    value, weights = scaled_dot_product(query * sharpness * keys.shape[1] ** 0.5, keys, values)
    return SoftLookup(dict(zip(table, weights[0].tolist(), strict=True)), float(value))


def spelling_vectors(words: Sequence[str]) -> Tensor:
    """Return a unit vector of character bigram counts, including word boundaries, for each word: float64 [words,
    pairs].
    """
    pairs = [[first + second for first, second in pairwise(f"\n{word}\n")] for word in words]
    place = {pair: index for index, pair in enumerate(dict.fromkeys(pair for own in pairs for pair in own))}
    counts = torch.zeros(len(words), len(place), dtype=torch.float64)
    for row, own in enumerate(pairs):
        for pair in own:
            counts[row, place[pair]] += 1
    return counts / counts.norm(dim=1, keepdim=True)
