"""Keys and values of the tokens read so far, so that a new token costs one row of attention and no token is read twice.

Rows stand against the right edge: the newest token of every row is in the same column, and rows of different length
begin in different columns. So a step writes one column, and what is hidden stays hidden at the left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .attention import Executor
from .relative import RelativePositions
from .runs import Run

Where = tuple[Tensor, Tensor]  # row and column of each token of a pack: int64 [tokens] each


class KeyValueCache:
    """Room for `capacity` columns of `num_rows` rows in every layer, taken once.

    kept: float [layers, 2, rows, heads, capacity, head_dim], keys before values, in a dtype that may be wider than that
    of the network; newest: the column of the newest token, -1 before the first; first: int64 [rows], the column in
    which each row begins, on the CPU.
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
        self.begin = 0  # the column in which the longest row begins
        self.first = torch.zeros(num_rows, dtype=torch.int64)
        self._before: Tensor | None = None  # 0 where a row sees, -inf before it: [rows, 1, 1, capacity]
        # Views of a step, made once for all layers: its column, keys and values so far, what of them is hidden.
        self._column: Sequence[Tensor] = ()
        self._seen: Sequence[Tensor] = ()
        self._hidden: Tensor | None = None

    @property
    def capacity(self) -> int:
        """Columns."""
        return self.kept.shape[4]

    def begin_at(self, first: Tensor) -> None:
        """Say in which column each row begins: int64 [rows]."""
        self.first = first.cpu().clone()
        self.begin = int(self.first.min())
        self._before = None
        if int(self.first.max()) > self.begin:
            hidden = torch.zeros(len(first), 1, 1, self.capacity)
            hidden.masked_fill_(torch.arange(self.capacity) < self.first.view(-1, 1, 1, 1), float("-inf"))
            self._before = hidden.to(self.kept.device, self.kept.dtype)

    def turn_to(self, column: int) -> None:
        """The next step writes this column."""
        self.newest = column
        self._column = self.kept[:, :, :, :, column].unbind()  # of each layer [2, rows, heads, head_dim]
        self._seen = self.kept[:, :, :, :, self.begin : column + 1].flatten(0, 1).unbind()
        self._hidden = None if self._before is None else self._before[..., self.begin : column + 1]

    def remember(
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
        """An executor for whole texts: attend inside the pack by `attend`, and keep its keys and values.

        qkv: float [tokens, 3 * hidden], turned already where positions are rotary; where: row and column of each token.
        """
        parts = qkv.view(qkv.shape[0], 3, num_heads, -1).to(self.kept.dtype)  # [tokens, 3, heads, head_dim]
        rows, columns = where
        self.kept[depth, 0][rows, :, columns] = parts[:, 1]
        self.kept[depth, 1][rows, :, columns] = parts[:, 2]
        return attend(qkv, runs, num_heads, dropout_probability=dropout_probability, want_weights=want_weights)

    def look_back(
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
        """An executor for one new token of each row: write the column of `turn_to`, attend to what the row has read.

        qkv: float [rows, 3 * hidden], turned already where positions are rotary. Returns context [rows, hidden].
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
        """Go on with `rows`, int64 [kept], in that order; one may come more than once.

        since: the column before which the rows kept are equal to those whose place they take, so that nothing is copied
        there. It counts only where as many rows stay as there are.
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
        self.begin_at(self.first[rows.cpu()])

    def shift(self, columns: int) -> None:
        """Forget the first `columns` columns: all others move to the left. No row may begin in one of them."""
        stop = self.newest + 1
        self.kept[:, :, :, :, : stop - columns] = self.kept[:, :, :, :, columns:stop].clone()
        self.newest -= columns
        self.begin_at(self.first - columns)


def _attend_relative(
    query: Tensor, keys: Tensor, values: Tensor, relative: RelativePositions, hidden: Tensor | None
) -> Tensor:
    """Attention of one query a row with relative positions. query: [rows, heads, 1, head_dim]; keys, values: [rows,
    heads, columns, head_dim], the last column being the query's own. Returns context like the query.
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
