"""Sequences of a run arranged in blocks, and the keys that each position may attend to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .runs import Run
from .sparse_pattern import EMPTY, BlockPattern


class Grid:
    """Rows of whole blocks, with empty positions in the last block or between non-contiguous tokens.

    size: positions of a row, blocks * block_size; filled: bool [count, size] or [1, size], positions with a token; None
    if all are filled. rows, lists, wide_rows: those of the pattern, on the device.
    """

    def __init__(self, run: Run, place: Tensor | None, pattern: BlockPattern, device: torch.device) -> None:
        """place: int64 [count * length], the position of each token in its row, None for contiguous from 0."""
        self.run, self.pattern, self.device = run, pattern, device
        self.size = pattern.num_blocks * pattern.block_size
        self.rows, self.wide_rows = pattern.rows.to(device), pattern.wide_rows.to(device)
        self.lists = pattern.key_blocks.clamp(min=0).to(device)  # empty slots point at block 0 and are masked
        self.place = None if place is None else place.view(run.count, run.length)
        self.flat: Tensor | None = None  # int64 [count * length]: positions in all rows, concatenated
        self.filled: Tensor | None = None
        if self.place is not None:
            first = torch.arange(run.count, device=device) * self.size
            self.flat = (self.place + first[:, None]).reshape(-1)
            filled = torch.zeros(run.count * self.size, dtype=torch.bool, device=device)
            self.filled = filled.index_fill(0, self.flat, True).view(run.count, self.size)
        elif run.length < self.size:
            self.filled = (torch.arange(self.size, device=device) < run.length)[None]

    def put(self, tokens: Tensor) -> Tensor:
        """[count * length, width] to [count, size, width]; 0 at empty positions."""
        count, length = self.run.count, self.run.length
        if self.flat is not None:
            rows = tokens.new_zeros(count * self.size, tokens.shape[1])
            return rows.index_copy(0, self.flat, tokens).view(count, self.size, -1)
        return F.pad(tokens.view(count, length, -1), (0, 0, 0, self.size - length))

    def take(self, rows: Tensor) -> Tensor:
        """[count, size, width] to [count * length, width]."""
        if self.flat is not None:
            return rows.reshape(-1, rows.shape[2]).index_select(0, self.flat)
        return rows[:, : self.run.length].reshape(-1, rows.shape[2])

    def take_weights(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """[heads, size, size] of each sequence to [heads, length, length]; empty if `weights` is."""
        if self.place is None or not weights:
            return [one[:, : self.run.length, : self.run.length] for one in weights]
        return [one[:, place[:, None], place] for one, place in zip(weights, self.place, strict=True)]

    def hidden(self) -> Tensor | None:
        """The mask of listed keys: bool, broadcasts to [count, heads, rows, block, slots * block], or None.

        Masks empty slots, empty positions, and keys beyond the half width.
        """
        block = self.pattern.block_size
        hidden: Tensor | None = None
        if self.pattern.has_empty:
            empty = (self.pattern.key_blocks == EMPTY).to(self.device)  # [heads, rows, slots]
            hidden = empty.repeat_interleave(block, dim=-1)[None, :, :, None]  # [1, heads, rows, 1, keys]
        if self.filled is not None:
            by_block = ~self.filled.view(-1, self.pattern.num_blocks, block)  # [count, blocks, block]
            missing = by_block[:, self.lists].flatten(-2).unsqueeze(3)  # [count, heads, rows, 1, keys]
            hidden = missing if hidden is None else hidden | missing
        if self.pattern.half_width is not None:
            far = self.distances().abs() > self.pattern.half_width  # [1, heads, rows, block, keys]
            hidden = far if hidden is None else hidden | far
        return hidden

    def distances(self) -> Tensor:
        """key - query of each listed key: int64 [1, heads, rows, block, slots * block]."""
        block = self.pattern.block_size
        inside = torch.arange(block, device=self.device)
        keys = (self.lists[..., None] * block + inside).flatten(-2)  # [heads, rows, slots * block]
        queries = self.rows[:, None] * block + inside  # [rows, block]
        return (keys[:, :, None, :] - queries[:, :, None])[None]

    def wide_distances(self) -> Tensor:
        """key - query for the rows that attend to everything: int64 [1, 1, wide * block, size]."""
        block = self.pattern.block_size
        inside = torch.arange(block, device=self.device)
        queries = (self.wide_rows[:, None] * block + inside).reshape(-1)
        return (torch.arange(self.size, device=self.device) - queries[:, None])[None, None]
