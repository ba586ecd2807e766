"""Sparse attention over packs: each block of queries attends to the few blocks of keys that a rule lists.

Cost is linear in the length (Zaheer et al. 2020, appendix D): no tensor of length x length is created unless the
weights are requested. `attend_masked` is the same attention with a dense mask, the reference for the tests.
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
    """Attention within each sequence of a pack as `rule` allows.

    Args:
        qkv: float [tokens, 3 * hidden]: queries, keys and values of all heads.
        runs: Cover every token once, in order. A sequence need not fill its last block.
        rule: Where its pattern is full, attention is full.
        relative: Relative positions.
        positions: int64 [tokens], the position of each token in a row of `padded_length`, if not contiguous from 0.
        padded_length: Row length that determines the pattern, if longer than the sequence (transformers' BigBird
            depends on padding; our own rules do not need it).

    Returns context [tokens, hidden] and, if wanted, one weight tensor [heads, length, length] per sequence, in order;
    rows of weights sum to 1. Raises ConfigError for positions without padded_length, and with positions for a rule
    whose blocks do not attend to themselves: with gaps, a token might have no key.
    """
    check(
        positions is None or padded_length is not None,
        "positions are indices in a row of padded_length tokens: pass both, or neither.",
    )
    sizes = [run.count * run.length for run in runs]
    places = [None] * len(sizes) if positions is None else positions.split(sizes)
    contexts: list[Tensor] = []
    weights: list[Tensor] = []
    some: Sequence[Tensor]
    for part, place, run in zip(qkv.split(sizes), places, runs, strict=True):
        own_run = Run(0, run.count, run.length)
        pattern = pattern_for(rule, run.length, num_heads, place, padded_length)
        if pattern is None:
            context, some = _attend_fully(part, own_run, num_heads, dropout_probability, want_weights, relative, place)
        else:
            check(
                place is None or pattern.attends_to_own_block,
                "In this rule a block may not attend to itself, so rows with gaps could leave a token without any key: "
                "pass no positions, or use a rule with a window.",
            )
            grid = Grid(own_run, place, pattern, qkv.device)
            context, some = Blocks(grid, num_heads, dropout_probability, want_weights, relative).attend(part)
        contexts.append(context)
        weights += some
    hidden = qkv.shape[1] // 3
    context = contexts[0] if len(contexts) == 1 else torch.cat(contexts or [qkv[:, :hidden]])
    return context, tuple(weights) if want_weights else None


def pattern_for(
    rule: AttentionRule, length: int, num_heads: int, place: Tensor | None = None, padded_length: int | None = None
) -> BlockPattern | None:
    """Returns the pattern for a sequence of `length` tokens, None for full attention.

    place: int64 [...], positions of its tokens, None if contiguous; padded_length: see `attend_sparse`.
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
    """log(count) of each key: float [heads or 1, length, length]. place: int64 [length]."""
    block = place // pattern.block_size
    logarithms = pattern.counts().to(place.device).double().log()[:, block[:, None], block]
    if pattern.half_width is None:
        return logarithms
    return logarithms.masked_fill((place - place[:, None]).abs() > pattern.half_width, -math.inf)
