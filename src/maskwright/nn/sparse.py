"""Sparse attention over packs: each block of queries sees the few blocks of keys that a rule lists.

Cost grows linearly with the length (Zaheer et al. 2020, appendix D): no tensor of length x length is made unless the
weights are asked for. `attend_masked` is the same attention by a dense mask, the reference to which the tests hold the
block executor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..core.config import check
from .attention import attend
from .dropout import dropout
from .relative import RelativePositions, attend_relative
from .runs import Run
from .sparse_blocks import Blocks
from .sparse_grid import Grid
from .sparse_pattern import BlockPattern
from .sparse_rules import AttentionRule


def attend_sparse(
    qkv: Tensor,
    runs: Sequence[Run],
    num_heads: int,
    rule: AttentionRule,
    *,
    dropout_probability: float = 0.0,
    want_weights: bool = False,
    relative: RelativePositions | None = None,
    positions: Tensor | None = None,
    padded_length: int | None = None,
) -> tuple[Tensor, tuple[Tensor, ...] | None]:
    """Attend inside each sequence of a pack as `rule` allows.

    qkv: float [tokens, 3 * hidden], the queries, then keys, then values of all heads; runs: cover every token once, in
    order. A sequence need not fill its last block; where the rule lets all see all, it attends fully.
    relative: what relative positions add; padded_length: the row length that decides the pattern, where it is longer
    than the sequence (transformers' BigBird minds padding; our own rules are better off without); positions: int64
    [tokens], the place of each token in such a row, where they do not stand side by side from 0.
    Returns context [tokens, hidden] and, if wanted, one weight tensor [heads, length, length] per sequence, in order;
    rows of weights sum to 1. Raises ConfigError for positions without padded_length, and under a rule whose blocks do
    not see themselves: between holes, a token might see nothing.
    """
    check(
        positions is None or padded_length is not None,
        "positions are places in a row of padded_length tokens: pass both, or neither.",
    )
    sizes = [run.count * run.length for run in runs]
    places = [None] * len(sizes) if positions is None else positions.split(sizes)
    contexts: list[Tensor] = []
    weights: list[Tensor] = []
    some: Sequence[Tensor]
    for part, place, run in zip(qkv.split(sizes), places, runs, strict=True):
        alone = Run(0, run.count, run.length)
        pattern = pattern_for(rule, run.length, num_heads, place, padded_length)
        if pattern is None:
            context, some = _attend_fully(part, alone, num_heads, dropout_probability, want_weights, relative, place)
        else:
            check(
                place is None or pattern.sees_itself,
                "This rule lets a block overlook itself, so rows with holes could leave a token without any key: pass "
                "no positions, or a rule with a window.",
            )
            grid = Grid(alone, place, pattern, qkv.device)
            context, some = Blocks(grid, num_heads, dropout_probability, want_weights, relative).attend(part)
        contexts.append(context)
        weights += some
    hidden = qkv.shape[1] // 3
    context = contexts[0] if len(contexts) == 1 else torch.cat(contexts or [qkv[:, :hidden]])
    return context, tuple(weights) if want_weights else None


def pattern_for(
    rule: AttentionRule, length: int, num_heads: int, place: Tensor | None = None, padded_length: int | None = None
) -> BlockPattern | None:
    """The pattern for a sequence of `length` tokens, or None where every token sees every token.

    place: int64 [...], where its tokens stand, or None for side by side; padded_length: as `attend_sparse` takes it.
    """
    end = length if place is None else int(place.max()) + 1
    row_length = max(end, padded_length or 0)
    if rule.is_full_at(row_length):
        return None
    pattern = rule.pattern(-(-row_length // rule.block_size), num_heads)
    return None if pattern.is_full else pattern.cut(-(-end // rule.block_size))


def attend_masked(
    qkv: Tensor,
    runs: Sequence[Run],
    num_heads: int,
    rule: AttentionRule,
    *,
    dropout_probability: float = 0.0,
    relative: RelativePositions | None = None,
    positions: Tensor | None = None,
    padded_length: int | None = None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """What `attend_sparse` computes, by all scores and a dense mask, one sequence after the other.

    qkv: float [tokens, 3 * hidden]. Returns context [tokens, hidden] and weights [heads, length, length] of each
    sequence. A key that a pattern lists n times gets log(n) added to its score; one that it does not list, -infinity.
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


def _attend_fully(
    tokens: Tensor,
    run: Run,
    num_heads: int,
    dropout_probability: float,
    want_weights: bool,
    relative: RelativePositions | None,
    place: Tensor | None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """tokens: [count * length, 3 * hidden] of one run. Returns context [count * length, hidden] and weights."""
    if relative is None:
        context, weights = attend(
            tokens, [run], num_heads, dropout_probability=dropout_probability, want_weights=want_weights
        )
    else:
        context, weights = attend_relative(
            tokens,
            [run],
            num_heads,
            relative,
            dropout_probability=dropout_probability,
            want_weights=want_weights,
            positions=place,
        )
    return context, weights or ()


def _mask(pattern: BlockPattern, place: Tensor) -> Tensor:
    """log(how often) of each key: float [heads or 1, length, length]. place: int64 [length]."""
    block = place // pattern.block_size
    logarithms = pattern.counts().to(place.device).double().log()[:, block[:, None], block]
    if pattern.half_width is None:
        return logarithms
    return logarithms.masked_fill((place - place[:, None]).abs() > pattern.half_width, -math.inf)
