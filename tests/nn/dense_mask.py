"""Sparse attention computed with all scores and a dense mask: what the block executor is compared with."""

import math

import torch

from maskwright.nn.layers import dropout
from maskwright.nn.sparse import pattern_for


def attend_masked(
    qkv, runs, num_heads, rule, *, dropout_probability=0.0, relative=None, positions=None, padded_length=None
):
    """The result of `attend_sparse`, computed with all scores and a dense mask, one sequence at a time.

    qkv: float [tokens, 3 * hidden]. Returns context [tokens, hidden] and weights [heads, length, length] per sequence.
    A key that a pattern lists n times gets log(n) added to its score; an unlisted one gets -infinity.
    """
    hidden = qkv.shape[1] // 3
    scale = 1.0 / math.sqrt(hidden // num_heads)
    lengths = [run.length for run in runs for _ in range(run.count)]
    places = [None] * len(lengths) if positions is None else positions.split(lengths)
    contexts, weights = [], []
    for part, place, length in zip(qkv.split(lengths), places, lengths, strict=True):
        query, key, value = part.view(length, 3, num_heads, -1).permute(1, 2, 0, 3)[:, None]
        query = query * scale  # each [1, heads, length, head_dim]
        at = torch.arange(length, device=qkv.device) if place is None else place
        distances = (at - at[:, None])[None, None]  # [1, 1, length, length]
        scores = query @ key.mT
        if relative is not None:
            scores = scores + relative.score_terms(query, key, scale, distances, slice(None))
        pattern = pattern_for(rule, length, num_heads, place, padded_length)
        if pattern is not None:
            scores = scores + _mask(pattern, at).to(scores.dtype)
        one = torch.softmax(scores, dim=-1)  # [1, heads, length, length]
        dropped = dropout(one, dropout_probability)
        more = None if relative is None else relative.context_terms(dropped, distances)
        context = dropped @ value if more is None else dropped @ value + more
        contexts.append(context[0].transpose(0, 1).reshape(length, hidden))
        weights.append(one[0])
    return torch.cat(contexts or [qkv[:, :hidden]]), tuple(weights)


def _mask(pattern, place):
    """log(count) of each key: float [heads or 1, length, length]. place: int64 [length]."""
    block = place // pattern.block_size
    logarithms = pattern.counts().to(place.device).double().log()[:, block[:, None], block]
    if pattern.half_width is None:
        return logarithms
    return logarithms.masked_fill((place - place[:, None]).abs() > pattern.half_width, -math.inf)
