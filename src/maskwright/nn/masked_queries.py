"""Attention for masked query tokens: they attend to a sequence, but no token attends to them.

A padded row has such tokens where its attention mask excludes some that a head still uses (models/padded.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .attention import SelfAttention
from .dropout import dropout
from .positions import Angles, RelativePositions, rotate_query_key


@dataclass(frozen=True)
class MaskedQueryContext:
    """How masked query tokens attend to their sequence in one layer.

    relative, distances: relative positions, for int64 [queries, length], key position minus query position; angles,
    their_angles: rotary angles of the queries and of the sequence; visible: bool [queries, length], None for all.
    blind: context of a query without visible keys: "mean" of all values (queries included), or "zero".
    """

    relative: RelativePositions | None = None
    distances: Tensor | None = None
    angles: Angles | None = None
    their_angles: Angles | None = None
    visible: Tensor | None = None
    blind: str = "mean"


def attend_masked_queries(
    attention: SelfAttention, tokens: Tensor, hidden: Tensor, masking: MaskedQueryContext
) -> Tensor:
    """Attends from masked query tokens to their sequence.

    tokens: float [queries, hidden]; hidden: float [length, hidden], the sequence. Returns float [queries, hidden].
    """
    size, heads = tokens.shape[1], attention.num_heads
    query, own_key, own_value = _heads(attention.project(tokens), heads, masking.angles)
    _, key, value = _heads(attention.project(hidden), heads, masking.their_angles)
    distances = None if masking.distances is None else masking.distances[None, None]
    scale = 1.0 / math.sqrt(size // heads)
    query = query * scale
    scores = query @ key.mT  # [1, heads, queries, length]
    if masking.relative is not None:
        scores = scores + masking.relative.score_terms(query, key, scale, distances, slice(None))
    sees = None if masking.visible is None else masking.visible.any(dim=1, keepdim=True)  # [queries, 1]
    if masking.visible is not None and sees is not None:
        scores = scores.masked_fill(~(masking.visible | ~sees), -math.inf)  # queries without keys are handled below
    weights = dropout(torch.softmax(scores, dim=-1), attention.attention_dropout, attention.training)
    context = weights @ value  # [1, heads, queries, head_dim]
    more = None if masking.relative is None else masking.relative.context_terms(weights, distances)
    context = context if more is None else context + more
    if sees is not None and masking.blind == "zero":
        context = context * sees
    elif sees is not None and not bool(sees.all()):
        blind = _equally(query, torch.cat([key, own_key], dim=2), torch.cat([value, own_value], dim=2))
        context = torch.where(sees, context, blind)
    result: Tensor = attention.out(context.transpose(1, 2).reshape(len(tokens), size))
    return result


def _equally(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The mean of all values, with the gradients of a softmax over equally masked keys.

    transformers adds such a large negative number to each score that the score is lost in the sum, but not in its
    gradient. query, key, value: float [1, heads, ..., head_dim]. Returns the shape of query.
    """
    scores = query @ key.mT
    return torch.softmax(scores - scores.detach(), dim=-1) @ value


def _heads(qkv: Tensor, num_heads: int, angles: Angles | None) -> Tensor:
    """qkv: float [tokens, 3 * hidden]. Returns [3, 1, heads, tokens, head_dim], rotated if there are angles."""
    if angles is not None:
        qkv = rotate_query_key(qkv, num_heads, *angles)
    return qkv.view(1, len(qkv), 3, num_heads, -1).permute(2, 0, 3, 1, 4)
