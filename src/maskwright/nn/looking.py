"""Tokens beside a sequence: they see it, nothing sees them.

A padded row has such tokens where its mask drops some and a head reads them all the same (models/onlookers.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .attention import SelfAttention
from .dropout import dropout
from .relative import RelativePositions
from .rotary import Angles, rotate_query_key


@dataclass(frozen=True)
class Sight:
    """How onlookers see their sequence in one layer.

    relative, distances: what relative positions add, for int64 [onlookers, length], key's place minus query's; angles,
    their_angles: rotary angles of the onlookers and of the sequence; visible: bool [onlookers, length], None for all.
    blind: what one that sees nothing gets: the "mean" of all values, its own and the other onlookers' too, or "zero".
    """

    relative: RelativePositions | None = None
    distances: Tensor | None = None
    angles: Angles | None = None
    their_angles: Angles | None = None
    visible: Tensor | None = None
    blind: str = "mean"


def look(attention: SelfAttention, tokens: Tensor, hidden: Tensor, sight: Sight) -> Tensor:
    """What tokens that nothing attends to gather from a sequence that they are not part of.

    tokens: float [onlookers, hidden]; hidden: float [length, hidden], the sequence. Returns float [onlookers, hidden].
    """
    size, heads = tokens.shape[1], attention.num_heads
    query, own_key, own_value = _heads(attention.qkv(tokens), heads, sight.angles)
    _, key, value = _heads(attention.qkv(hidden), heads, sight.their_angles)
    distances = None if sight.distances is None else sight.distances[None, None]
    scale = 1.0 / math.sqrt(size // heads)
    query = query * scale
    scores = query @ key.mT  # [1, heads, onlookers, length]
    if sight.relative is not None:
        scores = scores + sight.relative.score_terms(query, key, scale, distances, slice(None))
    sees = None if sight.visible is None else sight.visible.any(dim=1, keepdim=True)  # [onlookers, 1]
    if sight.visible is not None and sees is not None:
        scores = scores.masked_fill(~(sight.visible | ~sees), -math.inf)  # blind ones are settled below
    weights = dropout(torch.softmax(scores, dim=-1), attention.attention_dropout, attention.training)
    context = weights @ value  # [1, heads, onlookers, head_dim]
    more = None if sight.relative is None else sight.relative.context_terms(weights, distances)
    context = context if more is None else context + more
    if sees is not None and sight.blind == "zero":
        context = context * sees
    elif sees is not None and not bool(sees.all()):
        blind = _equally(query, torch.cat([key, own_key], dim=2), torch.cat([value, own_value], dim=2))
        context = torch.where(sees, context, blind)
    result: Tensor = attention.out(context.transpose(1, 2).reshape(len(tokens), size))
    return result


def _equally(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The mean of all values, in the gradients of a softmax over equally forbidden keys.

    transformers adds so large a negative number to each score that the sum forgets the score; its gradient does not.
    query, key, value: float [1, heads, ..., head_dim]. Returns the shape of query.
    """
    scores = query @ key.mT
    return torch.softmax(scores - scores.detach(), dim=-1) @ value


def _heads(qkv: Tensor, num_heads: int, angles: Angles | None) -> Tensor:
    """qkv: float [tokens, 3 * hidden]. Returns [3, 1, heads, tokens, head_dim], turned where there are angles."""
    if angles is not None:
        qkv = rotate_query_key(qkv, num_heads, *angles)
    return qkv.view(1, len(qkv), 3, num_heads, -1).permute(2, 0, 3, 1, 4)
