"""Sparse attention over packs: each block of queries attends to the few blocks of keys that a rule lists.

Cost is linear in the length (Zaheer et al. 2020, appendix D): no tensor of length x length is created unless the
weights are requested.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..core.config import check
from .attention import attend
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
