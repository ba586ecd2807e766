"""Block patterns of sparse attention: the key blocks of each query block.

A sequence is divided into blocks of `block_size` tokens. A pattern is a list of key blocks per query block instead of a
matrix of tokens, so its size is linear in the length (Zaheer et al. 2020, appendix D).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..core.config import check

EMPTY = -1  # unused slot of a list


@dataclass(frozen=True, eq=False)
class BlockPattern:
    """Lists of key blocks.

    rows: int64 [rows], the query blocks with a list, ascending; key_blocks: int64 [heads, rows, slots], or [1, rows,
    slots] if all heads share it, padded with EMPTY; a block listed twice counts twice. wide_rows: int64 [wide], the
    query blocks that attend to every key block once, in all heads. half_width: maximum distance that a token attends
    to, None for no limit.
    """

    block_size: int
    num_blocks: int
    rows: Tensor
    key_blocks: Tensor
    wide_rows: Tensor
    half_width: int | None = None

    @classmethod
    def from_map(
        cls, sees: Tensor, block_size: int, *, extra: Tensor | None = None, half_width: int | None = None
    ) -> BlockPattern:
        """Builds a pattern from a block map.

        sees: bool [heads, blocks, blocks] or [1, blocks, blocks], query block by key block; extra: int64 [heads,
        blocks, slots], additional key blocks (EMPTY for none), which may repeat those of the map. Raises ConfigError if
        a query block has no key.
        """
        num_blocks = sees.shape[1]
        empty = ~(sees.any(-1) if extra is None else sees.any(-1) | (extra != EMPTY).any(-1))
        check(not bool(empty.any()), "A query block of the attention pattern has no key block: add at least one.")
        lists = _lists(sees)
        if extra is not None:
            lists = torch.cat((lists.expand(extra.shape[0], -1, -1), extra), dim=-1)
        sees_all = (_count(lists, num_blocks) == 1).all(-1).all(0)  # [blocks]
        if half_width is not None:
            sees_all = torch.zeros_like(sees_all)
        rows = (~sees_all).nonzero().squeeze(1)
        lists = lists[:, rows]
        used = (lists != EMPTY).any(0).any(0)  # [slots]
        return cls(block_size, num_blocks, rows, lists[..., used], sees_all.nonzero().squeeze(1), half_width)

    @property
    def is_full(self) -> bool:
        """Whether attention is full."""
        return len(self.rows) == 0

    @property
    def has_empty(self) -> bool:
        """Whether some lists are shorter than others."""
        return bool((self.key_blocks == EMPTY).any())

    @property
    def attends_to_own_block(self) -> bool:
        """Whether every query block attends to the keys of the same block."""
        return bool((self.key_blocks == self.rows[:, None]).any(-1).all())

    def counts(self) -> Tensor:
        """How often each query block lists each key block: int64 [heads, blocks, blocks], or [1, blocks, blocks]."""
        counted = torch.ones(self.key_blocks.shape[0], self.num_blocks, self.num_blocks, dtype=torch.int64)
        counted[:, self.rows] = _count(self.key_blocks, self.num_blocks)
        return counted

    def block_map(self) -> Tensor:
        """Whether each query block attends to each key block: bool, in the shape of `counts`."""
        return self.counts() > 0

    def draw(self, head: int = 0) -> str:
        """The map of one head as text, a line per query block: "#" is attended to, "." is not."""
        seen = self.block_map()[min(head, self.key_blocks.shape[0] - 1)]
        return "\n".join("".join("#" if one else "." for one in row) for row in seen.tolist())

    def cut(self, num_blocks: int) -> BlockPattern:
        """The pattern of the first `num_blocks` blocks, for a short sequence of a longer padded row."""
        if num_blocks >= self.num_blocks:
            return self
        kept = self.rows < num_blocks
        lists = self.key_blocks[:, kept]
        return replace(
            self,
            num_blocks=num_blocks,
            rows=self.rows[kept],
            key_blocks=torch.where(lists < num_blocks, lists, EMPTY),
            wide_rows=self.wide_rows[self.wide_rows < num_blocks],
        )


def _lists(sees: Tensor) -> Tensor:
    """bool [heads, blocks, blocks] to lists of True indices: int64 [heads, blocks, blocks], padded with EMPTY."""
    order = (~sees).to(torch.uint8).argsort(dim=-1, stable=True)
    return torch.where(sees.gather(-1, order), order, EMPTY)


def _count(lists: Tensor, num_blocks: int) -> Tensor:
    """How often each block occurs in the lists [heads, rows, slots]: int64 [heads, rows, num_blocks]."""
    counted = torch.zeros(*lists.shape[:-1], num_blocks + 1, dtype=torch.int64)
    counted.scatter_add_(-1, torch.where(lists == EMPTY, num_blocks, lists), torch.ones_like(lists))
    return counted[..., :num_blocks]
