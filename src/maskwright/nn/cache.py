"""Key-value cache for incremental decoding: each new token costs one row of attention.

Rows are right-aligned: the newest tokens of all rows share a column, and rows of different length start in different
columns. A step writes one column, and masked positions stay on the left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .attention import Executor, Run
from .positions import RelativePositions

Where = tuple[Tensor, Tensor]  # row and column of each token of a pack: int64 [tokens] each


class KeyValueCache:
    """Preallocated keys and values: `capacity` columns of `num_rows` rows in every layer.

    kept: float [layers, 2, rows, heads, capacity, head_dim], keys before values, in a dtype that may be wider than that
    of the network; newest: column of the newest token, -1 before the first; first: int64 [rows] on the CPU, the first
    column of each row.
    """

    def __init__(
        self,
        num_layers: int,
        num_rows: int,
        capacity: int,
        num_heads: int,
        head_dim: int,
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> None:
        self.kept = torch.zeros(num_layers, 2, num_rows, num_heads, capacity, head_dim, dtype=dtype, device=device)
        self.newest = -1
        self.begin = 0  # first column of the longest row
        self.first = torch.zeros(num_rows, dtype=torch.int64)
        self._before: Tensor | None = None  # additive mask, -inf before a row's first column: [rows, 1, 1, capacity]
        # Views of one step, shared by all layers: its column, keys and values so far, and their mask.
        self._column: Sequence[Tensor] = ()
        self._seen: Sequence[Tensor] = ()
        self._hidden: Tensor | None = None

    @property
    def capacity(self) -> int:
        """Number of columns."""
        return self.kept.shape[4]

    def set_first_columns(self, first: Tensor) -> None:
        """Sets the first column of each row: int64 [rows]."""
        self.first = first.cpu().clone()
        self.begin = int(self.first.min())
        self._before = None
        if int(self.first.max()) > self.begin:
            hidden = torch.zeros(len(first), 1, 1, self.capacity)
            hidden.masked_fill_(torch.arange(self.capacity) < self.first.view(-1, 1, 1, 1), float("-inf"))
            self._before = hidden.to(self.kept.device, self.kept.dtype)

    def set_column(self, column: int) -> None:
        """Selects the column that the next step writes."""
        self.newest = column
        self._column = self.kept[:, :, :, :, column].unbind()  # of each layer [2, rows, heads, head_dim]
        self._seen = self.kept[:, :, :, :, self.begin : column + 1].flatten(0, 1).unbind()
        self._hidden = None if self._before is None else self._before[..., self.begin : column + 1]

    def attend_and_store(
        self,
        qkv: Tensor,
        runs: Sequence[Run],
        num_heads: int,
        *,
        depth: int,
        where: Where,
        attend: Executor,
        dropout_probability: float = 0.0,
        want_weights: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """Executor for whole texts: attends within the pack with `attend` and stores its keys and values.

        qkv: float [tokens, 3 * hidden], already rotated if positions are rotary; where: row and column of each token.
        """
        parts = qkv.view(qkv.shape[0], 3, num_heads, -1).to(self.kept.dtype)  # [tokens, 3, heads, head_dim]
        rows, columns = where
        self.kept[depth, 0][rows, :, columns] = parts[:, 1]
        self.kept[depth, 1][rows, :, columns] = parts[:, 2]
        return attend(qkv, runs, num_heads, dropout_probability=dropout_probability, want_weights=want_weights)

    def attend_cached(
        self,
        qkv: Tensor,
        runs: Sequence[Run],
        num_heads: int,
        *,
        depth: int,
        relative: RelativePositions | None = None,
        dropout_probability: float = 0.0,
        want_weights: bool = False,
    ) -> tuple[Tensor, None]:
        """Executor for one new token per row: writes the current column and attends to all columns of the row.

        qkv: float [rows, 3 * hidden], already rotated if positions are rotary. Returns context [rows, hidden].
        """
        rows, width = qkv.shape
        heads = qkv.view(rows, 3, num_heads, width // (3 * num_heads))  # [rows, 3, heads, head_dim]
        self._column[depth].copy_(heads[:, 1:].transpose(0, 1))
        keys, values = self._seen[2 * depth], self._seen[2 * depth + 1]  # [rows, heads, columns, head_dim]
        query = heads[:, 0].unsqueeze(2).to(self.kept.dtype)  # [rows, heads, 1, head_dim]
        if relative is None:
            context = F.scaled_dot_product_attention(query, keys, values, attn_mask=self._hidden)
        else:
            context = _attend_relative(query, keys, values, relative, self._hidden)
        return context.reshape(rows, width // 3).to(qkv.dtype), None

    def keep(self, rows: Tensor, since: int = 0) -> None:
        """Keeps only `rows`, int64 [kept], in that order; rows may repeat.

        since: columns before this one are identical in the old and new rows, so they are not copied. Used only if the
        number of rows does not change.
        """
        stop = self.newest + 1
        rows = rows.to(self.kept.device)
        if len(rows) == len(self.first):
            moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero().squeeze(1)
            if len(moved) and since < stop:
                self.kept[:, :, moved, :, since:stop] = self.kept[:, :, rows[moved], :, since:stop]
        else:
            layers, both, _, *sizes = self.kept.shape
            fresh = self.kept.new_zeros(layers, both, len(rows), *sizes)
            fresh[:, :, :, :, self.begin : stop] = self.kept[:, :, rows, :, self.begin : stop]
            self.kept = fresh
        self.set_first_columns(self.first[rows.cpu()])

    def join(self, other: KeyValueCache, capacity: int) -> None:
        """Adds the rows of another cache after its own, in `capacity` columns; the newest columns become the same."""
        newest = max(self.newest, other.newest)
        layers, both, rows, heads, _, head_dim = self.kept.shape
        fresh = self.kept.new_zeros(layers, both, rows + len(other.first), heads, capacity, head_dim)
        fresh[:, :, :rows, :, newest - self.newest : newest + 1] = self.kept[:, :, :, :, : self.newest + 1]
        fresh[:, :, rows:, :, newest - other.newest : newest + 1] = other.kept[:, :, :, :, : other.newest + 1]
        self.kept = fresh
        first = torch.cat([one.first + (newest - one.newest) for one in (self, other)])
        self.newest = newest
        self.set_first_columns(first)

    def shift(self, columns: int) -> None:
        """Drops the first `columns` columns and moves the others left. No row may begin in a dropped column."""
        stop = self.newest + 1
        self.kept[:, :, :, :, : stop - columns] = self.kept[:, :, :, :, columns:stop].clone()
        self.newest -= columns
        self.set_first_columns(self.first - columns)


def _attend_relative(
    query: Tensor, keys: Tensor, values: Tensor, relative: RelativePositions, hidden: Tensor | None
) -> Tensor:
    """Attention of one query per row with relative positions. query: [rows, heads, 1, head_dim]; keys, values: [rows,
    heads, columns, head_dim]; the last column is the query's own token. Returns context in the shape of query.
    """
    scale = 1.0 / math.sqrt(query.shape[-1])
    columns = keys.shape[-2]
    distances = torch.arange(1 - columns, 1, device=query.device).view(1, 1, 1, columns)  # key - query
    distances = distances.expand(len(query), 1, 1, columns)
    query = query * scale
    scores = query @ keys.mT + relative.score_terms(query, keys, scale, distances, slice(None))
    weights = torch.softmax(scores if hidden is None else scores + hidden, dim=-1)  # [rows, heads, 1, columns]
    context = weights @ values
    more = relative.context_terms(weights, distances)
    return context if more is None else context + more
