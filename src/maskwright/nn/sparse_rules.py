"""Rules of sparse attention: block patterns for any length.

Rules are small hashable values; equal rules give equal patterns, which are cached.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

from ..core.config import check
from .sparse_pattern import EMPTY, BlockPattern
from .sparse_random import keyed_random_blocks, published_random_blocks


class AttentionRule(Protocol):
    """A rule that generates block patterns. Rules are hashable."""

    @property
    def block_size(self) -> int:
        """Block size in tokens."""

    def is_full_at(self, length: int) -> bool:
        """Whether attention is full in a row of `length` tokens."""

    def pattern(self, num_blocks: int, num_heads: int) -> BlockPattern:
        """Returns the key blocks of each query block in a row of `num_blocks` blocks."""


@dataclass(frozen=True)
class BlockSparse:
    """Window, global and random blocks (BigBird: Zaheer et al. 2020, section 2).

    window_blocks: number of blocks to each side of a query block; None for no window, not even its own block.
    first_blocks, last_blocks: global blocks at both ends, which attend to all and are attended to by all.
    random_blocks: additional key blocks per query block and head, sampled by (seed, layer). The pattern of a length is
    the same in every step, in training and inference.
    """

    block_size: int = 64
    window_blocks: int | None = 1
    first_blocks: int = 1
    last_blocks: int = 1
    random_blocks: int = 3
    seed: int = 0
    layer: int = 0

    def __post_init__(self) -> None:
        _check_block_size(self.block_size)
        counts = (self.first_blocks, self.last_blocks, self.random_blocks, self.window_blocks or 0)
        check(min(counts) >= 0, f"Block counts must not be negative: {self}.")
        check(
            self.window_blocks is not None or sum(counts) > 0,
            "Sparse attention needs at least one window, global or random block.",
        )

    def is_full_at(self, length: int) -> bool:
        """Always False: full patterns of short rows are detected later."""
        return False

    def pattern(self, num_blocks: int, num_heads: int) -> BlockPattern:
        """The window, global and random blocks; random ones are sampled from the remaining blocks."""
        return _block_sparse(self, num_blocks, num_heads)


@dataclass(frozen=True)
class SlidingWindow:
    """Each token attends to tokens at most `half_width` away (ModernBERT: half of `local_attention`).

    block_size: affects the cost, not the result. Default: half_width, so that a query block needs three key blocks, but
    between 16 and 128.
    """

    half_width: int
    block_size: int = 0

    def __post_init__(self) -> None:
        check(self.half_width >= 0, f"half_width is {self.half_width} tokens; it must not be negative.")
        object.__setattr__(self, "block_size", self.block_size or min(max(self.half_width, 16), 128))
        _check_block_size(self.block_size)

    def is_full_at(self, length: int) -> bool:
        """Whether the window covers the whole row."""
        return length <= self.half_width + 1

    def pattern(self, num_blocks: int, num_heads: int) -> BlockPattern:
        """All blocks within the window of any token of a query block."""
        return _sliding_window(self, num_blocks)


@dataclass(frozen=True)
class PublishedBigBird:
    """BigBird exactly as in transformers, for its checkpoints.

    Rows of at most (5 + 2 * random_blocks) blocks use full attention; all others have a window of three blocks, the
    first and the last block global, and, in training, random blocks that depend on the layer and the padded length. In
    inference all random blocks are block 0, so the inner rows count it 1 + random_blocks times.
    """

    block_size: int = 64
    random_blocks: int = 3
    max_position_embeddings: int = 4096
    layer: int = 0
    is_training: bool = False

    def __post_init__(self) -> None:
        _check_block_size(self.block_size)
        check(self.random_blocks >= 0, f"random_blocks is {self.random_blocks}; it must not be negative.")

    def is_full_at(self, length: int) -> bool:
        """Whether transformers uses full attention for a batch padded to `length`."""
        return length <= (5 + 2 * self.random_blocks) * self.block_size

    def pattern(self, num_blocks: int, num_heads: int) -> BlockPattern:
        """num_blocks: of the padded row, which determines the last block."""
        return _published(self, num_blocks, num_heads)


def big_bird(block_size: int = 64, random_blocks: int = 3, seed: int = 0, layer: int = 0) -> BlockSparse:
    """Random, window and global blocks: one block to each side, one global block at each end."""
    return BlockSparse(block_size, 1, 1, 1, random_blocks, seed, layer)


def window_only(block_size: int = 64, window_blocks: int = 1) -> BlockSparse:
    """A block attends to itself and `window_blocks` to each side."""
    return BlockSparse(block_size, window_blocks, 0, 0, 0)


def global_only(block_size: int = 64, first_blocks: int = 1, last_blocks: int = 1) -> BlockSparse:
    """Global blocks only; the other blocks attend to nothing else, not even themselves."""
    return BlockSparse(block_size, None, first_blocks, last_blocks, 0)


def random_only(block_size: int = 64, random_blocks: int = 3, seed: int = 0, layer: int = 0) -> BlockSparse:
    """Random blocks only: part (a) of the paper's figure 1."""
    return BlockSparse(block_size, None, 0, 0, random_blocks, seed, layer)


# Patterns are cached, so they are created outside inference mode: training may use them too.


@lru_cache(maxsize=512)
def _block_sparse(rule: BlockSparse, num_blocks: int, num_heads: int) -> BlockPattern:
    with torch.inference_mode(False):
        sees = _window(num_blocks, rule.window_blocks) | _global(num_blocks, rule.first_blocks, rule.last_blocks)
        extra = None
        if rule.random_blocks:
            extra = keyed_random_blocks(~sees, num_heads, rule.random_blocks, rule.seed, rule.layer)
        return BlockPattern.from_map(sees[None], rule.block_size, extra=extra)


@lru_cache(maxsize=512)
def _sliding_window(rule: SlidingWindow, num_blocks: int) -> BlockPattern:
    reach = -(-rule.half_width // rule.block_size)
    with torch.inference_mode(False):
        return BlockPattern.from_map(_window(num_blocks, reach)[None], rule.block_size, half_width=rule.half_width)


@lru_cache(maxsize=512)
def _published(rule: PublishedBigBird, num_blocks: int, num_heads: int) -> BlockPattern:
    with torch.inference_mode(False):
        sees = _window(num_blocks, 1) | _global(num_blocks, 1, 1)
        if rule.is_training:
            extra = published_random_blocks(
                num_blocks, rule.block_size, rule.random_blocks, num_heads, rule.max_position_embeddings, rule.layer
            )
        else:
            extra = torch.zeros(1, num_blocks, rule.random_blocks, dtype=torch.int64)
            extra[:, [0, -1]] = EMPTY
        return BlockPattern.from_map(sees[None], rule.block_size, extra=extra)


def _window(num_blocks: int, reach: int | None) -> Tensor:
    """bool [blocks, blocks]: at most `reach` blocks apart."""
    block = torch.arange(num_blocks)
    return (block[:, None] - block).abs() <= (-1 if reach is None else reach)


def _global(num_blocks: int, first: int, last: int) -> Tensor:
    """bool [blocks, blocks]: the rows and columns of the first and last blocks."""
    block = torch.arange(num_blocks)
    is_global = (block < first) | (block >= num_blocks - last)
    return is_global[:, None] | is_global


def _check_block_size(block_size: int) -> None:
    check(0 < block_size <= 65_536, f"block_size is {block_size}; it must be 1 to 65,536 tokens.")
