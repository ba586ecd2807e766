"""Attention over padded rows: the executor for exported graphs.

A graph cannot depend on the lengths of the rows in a batch, so padding is masked instead of removed. The rules are
those of the packed executors (`models.attention_rules`); a test compares the two for every switch of the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.errors import ModelFolderError
from ..models.attention_rules import angles_of, rule_of
from ..models.config import ModelConfig
from ..nn.attention import Executor
from ..nn.relative import RelativePositions
from ..nn.rotary import Angles, rotate
from ..nn.runs import Run
from ..nn.sparse_rules import PublishedBigBird, SlidingWindow


@dataclass(frozen=True)
class RowMask:
    """Which keys a query attends to, as terms added to the scores.

    term: float [batch, 1, queries, keys], 0 or a very low number; distances: int64 [1, 1, queries, keys],
    key - query.
    """

    term: Tensor
    distances: Tensor


def row_mask(keep: Tensor, query_positions: Tensor, dtype: torch.dtype, rule: str, half_width: int = 0) -> RowMask:
    """Masks padding, and what the rule excludes.

    keep: bool [batch, keys]; query_positions: int64 [queries], their columns among the keys; rule: "full", "causal" or
    "window" (`half_width` tokens to each side). Masked scores are far below all others but finite, and stay so when a
    score is added: a row that is padding only must not become NaN.
    """
    keys = torch.arange(keep.shape[1], device=keep.device)
    distances = (keys - query_positions[:, None])[None, None]  # [1, 1, queries, keys]
    allowed = keep[:, None, None, :]  # [batch, 1, 1, keys]
    if rule == "causal":
        allowed = allowed & (distances <= 0)
    elif rule == "window":
        allowed = allowed & (distances.abs() <= half_width)
    else:
        allowed = allowed.expand(-1, -1, distances.shape[2], -1)
    term = torch.zeros_like(allowed, dtype=dtype).masked_fill(~allowed, torch.finfo(dtype).min / 2)
    return RowMask(term, distances)


def attend_rows(
    qkv: Tensor,
    runs: Sequence[Run],
    num_heads: int,
    *,
    mask: RowMask,
    relative: RelativePositions | None = None,
    angles: Angles | None = None,
    dropout_probability: float = 0.0,
    want_weights: bool = False,
) -> tuple[Tensor, None]:
    """Attention within each row of a padded batch.

    qkv: float [batch, seq, 3 * hidden]; angles: as of `heads_of`; runs, dropout_probability and want_weights are
    arguments of every executor, not used here. Returns context [batch, seq, hidden], no weights.
    """
    query, key, value = heads_of(qkv, num_heads, angles)
    context = masked_product(query, key, value, mask, relative)  # [batch, heads, seq, head_dim]
    return context.transpose(1, 2).flatten(2), None  # [batch, seq, hidden]


def heads_of(qkv: Tensor, num_heads: int, angles: Angles | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values: float [batch, heads, seq, head_dim] each.

    qkv: float [batch, seq, 3 * hidden]; angles: of rotary positions, for [seq], or for [batch * seq].
    """
    query, key, value = (
        one.unflatten(-1, (num_heads, -1)) for one in qkv.chunk(3, dim=-1)
    )  # [batch, seq, heads, width]
    if angles is not None:
        cosines_and_sines = [one.unflatten(0, (-1, qkv.shape[1])) for one in angles]
        query, key = rotate(query, *cosines_and_sines), rotate(key, *cosines_and_sines)
    return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)


def masked_product(
    query: Tensor, key: Tensor, value: Tensor, mask: RowMask, relative: RelativePositions | None = None
) -> Tensor:
    """softmax(q k^T / sqrt(head_dim) + mask) v: float [batch, heads, queries, head_dim].

    query: float [batch, heads, queries, head_dim]; key, value: float [batch, heads, keys, head_dim].
    """
    term = mask.term.to(query.dtype)  # scores may be in float32 (config.upcast_attention)
    if relative is None:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=term)
    scale = float(query.shape[-1]) ** -0.5
    query = query * scale
    terms = relative.score_terms(query, key, scale, mask.distances, slice(None))
    weights = torch.softmax(query @ key.mT + terms + term, dim=-1)
    more = relative.context_terms(weights, mask.distances)
    context = weights @ value
    return context if more is None else context + more


def angle_tables(config: ModelConfig) -> list[Angles | None]:
    """Rotary angles of each layer at every position: cosine and sine, float32 [positions, head_dim / 2].

    A graph looks them up: one in half precision would round the angles before it takes their cosine, and be wrong after
    a few hundred tokens.
    """
    return angles_of(config, torch.arange(config.max_position_embeddings), torch.float32)


def angles_at(tables: Sequence[Angles | None], positions: Tensor) -> list[Angles | None]:
    """Rotary angles of each layer at positions, int64 [tokens]: [tokens, head_dim / 2]. tables: of angle_tables."""
    made = {id(table): (table[0][positions], table[1][positions]) for table in tables if table is not None}
    return [None if table is None else made[id(table)] for table in tables]


def padded_executors(
    config: ModelConfig,
    keep: Tensor,
    dtype: torch.dtype,
    relatives: Sequence[RelativePositions | None],
    tables: Sequence[Angles | None],
) -> list[Executor]:
    """Returns the attention function of each layer.

    keep: bool [batch, seq]; relatives: per layer; tables: of angle_tables.
    """
    columns = torch.arange(keep.shape[1], device=keep.device)
    made: dict[tuple[str, int], RowMask] = {}
    found: list[Executor] = []
    for depth, (relative, angles) in enumerate(zip(relatives, angles_at(tables, columns), strict=True)):
        rule = _rule(config, depth)
        if rule not in made:
            made[rule] = row_mask(keep, columns, dtype, *rule)
        found.append(partial(attend_rows, mask=made[rule], relative=relative, angles=angles))
    return found


def most_tokens(config: ModelConfig) -> int:
    """Returns the longest sequence that a graph may have: BigBird's while its attention is full.

    Raises ModelFolderError for sparse attention, whose pattern depends on the length.
    """
    longest = config.max_position_embeddings
    for depth in range(config.num_hidden_layers):
        rule = rule_of(config, depth, training=False)
        if isinstance(rule, PublishedBigBird):
            longest = min(longest, (5 + 2 * rule.random_blocks) * rule.block_size)
        elif rule is not None and not isinstance(rule, SlidingWindow):
            raise ModelFolderError(
                f"Attention '{config.attention}' cannot be exported: its sparse pattern depends on the length of the "
                "text. Export a model with full, window or causal attention."
            )
    return longest


def _rule(config: ModelConfig, depth: int) -> tuple[str, int]:
    if config.attention == "causal":
        return "causal", 0
    rule = rule_of(config, depth, training=False)
    return ("window", rule.half_width) if isinstance(rule, SlidingWindow) else ("full", 0)
