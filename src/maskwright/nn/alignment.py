"""Attention between two recurrent networks, from decoder states to encoder outputs.

With h the decoder state, C_i the encoder output of source token i, and [;] concatenation:

    dot        e_i = h . C_i
    bilinear   e_i = h . W C_i                                                    (Luong et al. 2015, equation 8)
    mlp        e_i = w_2 . tanh(W_1 [h; C_i])                                        (Bahdanau et al. 2015, app. A.1.2)
    additive   e_i = tanh(w_a . [h; C_i])                   a single layer: weights differ by at most a factor of e^2

    a = softmax(e),  A = sum_i a_i C_i

Unlike in a Transformer, the scores are not divided by the square root of the size.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from .linear import Linear
from .padded_attention import Group, pad

ScoreName = Literal["dot", "bilinear", "mlp", "additive"]


class Sources(NamedTuple):
    """Encoded source texts as a padded batch.

    vectors: C, float [texts, longest, size]; keys: the part of the scores that depends only on C, computed once, float
    [texts, longest, ...]; is_padding: bool [texts, longest], None if all have the same length.
    """

    vectors: Tensor
    keys: Tensor
    is_padding: Tensor | None

    def rows(self, chosen: Tensor | slice) -> Sources:
        """Selects some of the texts. chosen: int64 [chosen], or a slice."""
        padding = None if self.is_padding is None else self.is_padding[chosen]
        return Sources(self.vectors[chosen], self.keys[chosen], padding)


class Alignment(nn.Module):
    """One of the four scores between vectors of `size` dimensions. Parameters are not initialized."""

    def __init__(self, score: ScoreName, size: int) -> None:
        super().__init__()
        self.score, self.size = score, size
        self.W = Linear(size, size, bias=False) if score == "bilinear" else None
        self.W_1 = Linear(2 * size, size, bias=False) if score == "mlp" else None
        self.w_2 = Linear(size, 1, bias=False) if score == "mlp" else None
        self.w_a = Linear(2 * size, 1, bias=False) if score == "additive" else None

    def prepare(self, vectors: Tensor, group: Group) -> Sources:
        """Pads encoded texts and computes their keys. vectors: float [group.tokens, size], concatenated."""
        side_by_side = pad(vectors, group).view(group.count, group.length, -1)  # [texts, longest, size]
        has_padding = group.tokens < group.count * group.length
        is_padding = group.is_padding.view(group.count, group.length) if has_padding else None
        return Sources(side_by_side, self._keys(side_by_side), is_padding)

    def forward(self, queries: Tensor, sources: Sources) -> tuple[Tensor, Tensor]:
        """queries: h, float [texts, queries, size]. Returns A, of that shape, and a, [texts, queries, longest]."""
        scores = self.scores(queries, sources.keys)  # [texts, queries, longest]
        if sources.is_padding is not None:
            scores = scores.masked_fill(sources.is_padding[:, None, :], -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return weights @ sources.vectors, weights

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """e, float [texts, queries, longest]. queries: float [texts, queries, size]; keys: of `Sources`."""
        if self.W_1 is not None and self.w_2 is not None:
            own = queries @ self._half(self.W_1, 0, queries)  # [texts, queries, size]
            scores: Tensor = self.w_2(torch.tanh(own[:, :, None] + keys[:, None])).squeeze(-1)
            return scores
        if self.w_a is not None:
            return torch.tanh(queries @ self._half(self.w_a, 0, queries) + keys.mT)
        return queries @ keys.mT

    def _keys(self, vectors: Tensor) -> Tensor:
        """The part of a score that depends only on C. vectors: float [texts, longest, size]."""
        if self.W is not None:
            keys: Tensor = self.W(vectors)
            return keys
        joined = self.W_1 or self.w_a
        return vectors if joined is None else vectors @ self._half(joined, 1, vectors)

    def _half(self, joined: Linear, number: int, like: Tensor) -> Tensor:
        """The transposed columns of a [h; C] matrix that multiply h (0) or C (1): float [size, outputs]."""
        return joined.weight[:, number * self.size : (number + 1) * self.size].T.to(like.dtype)
