"""Block-sparse attention of one run with one pattern, as a few batched products.

Keys and values of the listed blocks are gathered for each query block, [rows, slots * block, head_dim], and all blocks
of all heads go through one product. The work is split into parts, some heads of some sequences at a time, whose scores
fit the CPU cache.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .attention import CACHED_SCORES
from .dropout import dropout
from .relative import RelativePositions
from .sparse_grid import Grid
from .sparse_product import block_product, gather


class AttentionBias(NamedTuple):
    """Additive bias and distances for one set of queries and keys.

    bias: float, broadcasts to [count, heads, ..., queries, keys], or None; distances: int64 of the same shape, None
    without relative positions; heads: the range of heads.
    """

    bias: Tensor | None
    distances: Tensor | None
    heads: slice = slice(None)

    def part(self, sequences: slice, heads: slice) -> AttentionBias:
        """Selects some sequences and heads."""
        return AttentionBias(_part(self.bias, sequences, heads), _part(self.distances, sequences, heads), heads)


class Blocks(NamedTuple):
    """Block-sparse attention on a grid; see `attend_sparse` for the fields."""

    grid: Grid
    num_heads: int
    dropout_probability: float = 0.0
    want_weights: bool = False
    relative: RelativePositions | None = None

    def attend(self, tokens: Tensor) -> tuple[Tensor, list[Tensor]]:
        """tokens: float [count * length, 3 * hidden].

        Returns context [count * length, hidden] and, if wanted, weights [heads, length, length] of each sequence.
        """
        grid, pattern = self.grid, self.grid.pattern
        count, hidden = grid.run.count, tokens.shape[1] // 3
        shape = (count, pattern.num_blocks, pattern.block_size, 3, self.num_heads, hidden // self.num_heads)
        blocks = grid.put(tokens).view(shape).permute(3, 0, 4, 1, 2, 5)  # [3, count, heads, blocks, block, head_dim]
        listed, wide = self._terms(tokens.dtype)
        contexts: list[Tensor] = []
        weights: list[Tensor] = []
        sequences, heads = self._part_sizes()
        for start, group in zip(range(0, count, sequences), blocks.split(sequences, dim=1), strict=True):
            done = []
            for head, part in zip(range(0, self.num_heads, heads), group.split(heads, dim=2), strict=True):
                where = slice(start, start + sequences), slice(head, head + heads)
                done.append(self._attend_part(part, listed.part(*where), wide.part(*where)))
            contexts.append(torch.cat([context for context, _ in done], dim=1))
            if self.want_weights:
                weights += torch.cat([one for _, one in done if one is not None], dim=1).unbind()
        context = torch.cat(contexts).permute(0, 2, 3, 1, 4).reshape(count, grid.size, hidden)
        return grid.take(context), grid.take_weights(weights)

    def _part_sizes(self) -> tuple[int, int]:
        """Number of sequences and heads whose scores fit the cache together, at least one of each."""
        pattern = self.grid.pattern
        seen = pattern.key_blocks.shape[1] * pattern.key_blocks.shape[2] + len(pattern.wide_rows) * pattern.num_blocks
        most = max(1, CACHED_SCORES // (seen * pattern.block_size**2))
        return max(1, most // self.num_heads), min(most, self.num_heads)

    def _terms(self, dtype: torch.dtype) -> tuple[AttentionBias, AttentionBias]:
        """The biases of the query blocks with a list, and of those that attend to everything."""
        grid = self.grid
        filled = None if grid.filled is None else ~grid.filled[:, None, None]  # [count, 1, 1, size]
        is_relative = self.relative is not None
        return (
            AttentionBias(_bias(grid.hidden(), dtype), grid.distances() if is_relative else None),
            AttentionBias(_bias(filled, dtype), grid.wide_distances() if is_relative else None),
        )

    def _attend_part(self, part: Tensor, listed: AttentionBias, wide: AttentionBias) -> tuple[Tensor, Tensor | None]:
        """part: float [3, count, heads, blocks, block, head_dim], some sequences and heads.

        Returns context [count, heads, blocks, block, head_dim] and weights [count, heads, size, size], or None.
        """
        query, key, value = part.unbind()
        query, key, value = query * (1.0 / math.sqrt(query.shape[-1])), key.contiguous(), value.contiguous()
        block, num_blocks = query.shape[3], query.shape[2]
        lists = self.grid.lists if len(self.grid.lists) == 1 else self.grid.lists[listed.heads]  # [.., rows, slots]
        rows, wide_rows = self.grid.rows, self.grid.wide_rows
        narrow = query.index_select(2, rows)  # [count, heads, rows, block, head_dim]
        some, narrow_weights = self._product(narrow, key, value, lists, listed)
        context = torch.zeros_like(query).index_copy(2, rows, some)
        weights = None
        if narrow_weights is not None:
            spread = _spread(narrow_weights, lists, num_blocks)  # [count, heads, rows, block, size]
            weights = spread.new_zeros(*query.shape[:4], spread.shape[-1]).index_copy(2, rows, spread)
        if len(wide_rows):
            queries = query.index_select(2, wide_rows).flatten(2, 3)  # [count, heads, wide * block, head_dim]
            some, wide_weights = self._product(queries, key, value, None, wide)
            context = context.index_copy(2, wide_rows, some.unflatten(2, (-1, block)))
            if weights is not None and wide_weights is not None:
                weights = weights.index_copy(2, wide_rows, wide_weights.unflatten(2, (-1, block)))
        return context, None if weights is None else weights.flatten(2, 3)

    def _product(
        self, query: Tensor, key: Tensor, value: Tensor, lists: Tensor | None, terms: AttentionBias
    ) -> tuple[Tensor, Tensor | None]:
        """query: float [..., queries, head_dim], scaled; key, value: [count, heads, blocks, block, head_dim].

        Returns context [..., queries, head_dim] and, if wanted, weights [..., queries, keys].
        """
        if self.relative is None and not self.want_weights:
            return block_product(query, key, value, lists, terms.bias, self.dropout_probability), None
        keys, values = gather(key, lists), gather(value, lists)
        scores = query @ keys.mT
        if self.relative is not None:
            scale = 1.0 / math.sqrt(query.shape[-1])
            scores = scores + self.relative.score_terms(query, keys, scale, terms.distances, terms.heads)
        if terms.bias is not None:
            scores += terms.bias
        weights = torch.softmax(scores, dim=-1)
        dropped = dropout(weights, self.dropout_probability)
        context = dropped @ values
        if self.relative is not None:
            more = self.relative.context_terms(dropped, terms.distances)
            context = context if more is None else context + more
        return context, weights if self.want_weights else None


def _bias(hidden: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Converts a bool mask [...] to an additive bias [...]: 0, or so low that the weight is exactly 0.

    It is finite, so that a query without any key (an empty position) causes no NaN, forward or backward.
    """
    if hidden is None:
        return None
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, torch.finfo(dtype).min / 2)


def _part(shared: Tensor | None, sequences: slice, heads: slice) -> Tensor | None:
    """Selects some sequences and heads of [count or 1, heads or 1, ...]."""
    if shared is None:
        return None
    of_sequences = shared[sequences] if shared.shape[0] > 1 else shared
    return of_sequences[:, heads] if shared.shape[1] > 1 else of_sequences


def _spread(weights: Tensor, lists: Tensor, num_blocks: int) -> Tensor:
    """Scatters weights of listed keys [count, heads, rows, block, slots * block] to all keys [..., rows, block, size].

    Weights of a block that is listed twice are summed; an empty slot has weight 0 and may point anywhere.
    """
    rows, slots = lists.shape[1:]
    parts = weights.unflatten(-1, (slots, -1))  # [count, heads, rows, block, slots, block]
    index = lists.view(1, lists.shape[0], rows, 1, slots, 1).expand(parts.shape)
    spread = parts.new_zeros(*parts.shape[:4], num_blocks, parts.shape[-1])
    result: Tensor = spread.scatter_add(4, index, parts).flatten(-2)
    return result
