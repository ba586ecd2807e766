"""Sparse attention over packs: patterns of blocks, the rules that make them, and their product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.config import check
from ..core.randomness import generator
from .attention import CACHED_SCORES, Run, attend
from .dropout import dropout
from .linear import Function
from .positions import RelativePositions, attend_relative

# -- Block patterns of sparse attention: the key blocks of each query block ------------------------------------------
#
# A sequence is divided into blocks of `block_size` tokens. A pattern is a list of key blocks per query block instead of
# a matrix of tokens, so its size is linear in the length (Zaheer et al. 2020, appendix D).


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


# -- softmax(q k^T + bias) v over listed blocks, with a backward pass that stores neither weights nor gathered keys
#
# Autograd would store the gathered keys and values and the weights: at 4,096 tokens in BigBird's pattern, six times the
# memory of queries, keys and values together. Here the backward pass gathers and multiplies again (as Dao et al. 2022
# do for full attention).


def block_product(
    query: Tensor, key: Tensor, value: Tensor, lists: Tensor | None, bias: Tensor | None, dropout_probability: float
) -> Tensor:
    """Attention to the listed blocks, or to all keys.

    query: float [count, heads, rows, block, head_dim] with lists, else [count, heads, queries, head_dim], scaled; key,
    value: float [count, heads, blocks, block, head_dim]; lists: int64 [heads or 1, rows, slots], or None; bias: float,
    broadcasts to [..., queries, keys], without gradient. Returns the shape of `query`.
    """
    result: Tensor = _BlockProduct.apply(query, key, value, lists, bias, dropout_probability)
    return result


def gather(blocks: Tensor, lists: Tensor | None) -> Tensor:
    """Gathers the listed blocks for each query block.

    blocks: [count, heads, blocks, block, head_dim]; lists: int64 [heads or 1, rows, slots]. Returns [count, heads,
    rows, slots * block, head_dim]; without lists, all keys: [count, heads, size, head_dim].
    """
    if lists is None:
        return blocks.flatten(2, 3)
    count, heads, num_blocks, block, head_dim = blocks.shape
    flat = blocks.reshape(count * heads * num_blocks, block * head_dim)
    gathered = flat.index_select(0, _flat_index(blocks.shape, lists))
    return gathered.view(count, heads, lists.shape[1], lists.shape[2] * block, head_dim)


def _scatter(gradient: Tensor, shape: torch.Size, lists: Tensor | None) -> Tensor:
    """The backward pass of `gather`: sums the gradients of each block of [count, heads, blocks, block, head_dim]."""
    if lists is None:
        return gradient.view(shape)
    count, heads, num_blocks, block, head_dim = shape
    total = gradient.new_zeros(count * heads * num_blocks, block * head_dim)
    total.index_add_(0, _flat_index(shape, lists), gradient.reshape(-1, block * head_dim))
    return total.view(shape)


def _flat_index(shape: torch.Size, lists: Tensor) -> Tensor:
    """Lists as row indices of [count * heads * blocks, ...]: int64 [count * heads * rows * slots]."""
    count, heads, num_blocks = shape[:3]
    first = torch.arange(count * heads, device=lists.device).view(count, heads, 1, 1) * num_blocks
    return (first + lists).reshape(-1)


def _weights(query: Tensor, keys: Tensor, bias: Tensor | None) -> Tensor:
    """query: [..., queries, head_dim]; keys: [..., keys, head_dim]. Returns [..., queries, keys]."""
    scores = query @ keys.mT
    if bias is not None:
        scores += bias
    return torch.softmax(scores, dim=-1)


class _BlockProduct(Function):
    """Stores the inputs and, with dropout, one byte per weight."""

    @staticmethod
    def forward(
        context: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        lists: Tensor | None,
        bias: Tensor | None,
        dropout_probability: float,
    ) -> Tensor:
        """See `block_product` for the shapes: query [..., queries, head_dim], like the result."""
        weights = _weights(query, gather(key, lists), bias)
        keep = scale = None
        if dropout_probability > 0.0:
            factors = dropout(weights.new_ones(()).expand(weights.shape), dropout_probability)
            keep, scale = factors != 0, factors.amax()
            weights *= factors
        result = weights @ gather(value, lists)
        context.save_for_backward(query, key, value, lists, bias, keep, scale, result)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of q, k and v from that of the context, in the shape of query [..., queries, head_dim]."""
        query, key, value, lists, bias, keep, scale, result = context.saved_tensors
        gradient = gradients[0]
        keys = gather(key, lists)
        weights = _weights(query, keys, bias)
        of_scores = gradient @ gather(value, lists).mT  # [..., queries, keys], gradient of the weights so far
        dropped = weights
        if keep is not None:
            dropped = (weights * keep).mul_(scale)
            of_scores.mul_(keep).mul_(scale)
        of_value = _scatter(dropped.mT @ gradient, value.shape, lists)
        # Backward pass of softmax, w * (g - sum(w g)); the sum is the dot product of context and its gradient.
        of_scores.sub_((gradient * result).sum(-1, keepdim=True)).mul_(weights)
        of_key = _scatter(of_scores.mT @ query, key.shape, lists)
        return of_scores @ keys, of_key, of_value, None, None, None


# -- Random blocks of BigBird: from our keyed generator, and exactly as in the published implementation --------------


# Row lengths for which the published implementation samples as in the first version of the paper: from the first
# PUBLISHED_REACH tokens, with random draws for the longest row of the model.
PUBLISHED_LENGTHS = (1024, 3072, 4096)
PUBLISHED_REACH = 1024


def keyed_random_blocks(allowed: Tensor, num_heads: int, num_random: int, seed: int, layer: int) -> Tensor:
    """Samples up to `num_random` distinct allowed key blocks for each query block and head.

    allowed: bool [blocks, blocks], query block by key block. Returns int64 [heads, blocks, num_random], EMPTY where
    fewer are allowed. A function of (seed, layer, blocks, head): the same in training and inference.
    """
    num_blocks = allowed.shape[0]
    forbidden = ~allowed.numpy()
    chosen = np.full((num_heads, num_blocks, num_random), EMPTY, dtype=np.int64)
    most = min(num_random, num_blocks)
    for head in range(num_heads):
        draws = generator(seed, "random blocks", layer, num_blocks, head).random((num_blocks, num_blocks))
        draws[forbidden] = 2.0
        order = np.argsort(draws, axis=1)[:, :most]
        chosen[head, :, :most] = np.where(np.take_along_axis(draws, order, axis=1) < 2.0, order, EMPTY)
    return torch.from_numpy(chosen)


def published_random_blocks(
    num_blocks: int, block_size: int, num_random: int, num_heads: int, max_position_embeddings: int, layer: int
) -> Tensor:
    """The blocks that transformers' BigBird samples in training, with numpy's legacy generator seeded by the layer.

    num_blocks: of the padded row, more than 5 + 2 * num_random (below that, transformers uses full attention). Returns
    int64 [heads, blocks, num_random], EMPTY for the first and the last query block. As in transformers, blocks may
    repeat those of the window and the last one. Raises ConfigError if too few blocks are left to sample from.
    """
    check(
        num_blocks > 5 + 2 * num_random,
        f"{num_blocks} blocks are too few for {num_random} random ones: up to {5 + 2 * num_random}, attend fully.",
    )
    state = np.random.RandomState(layer)  # the legacy generator is part of the published behavior
    chosen = np.full((num_heads, num_blocks, num_random), EMPTY, dtype=np.int64)
    if num_blocks * block_size in PUBLISHED_LENGTHS:
        all_blocks = max_position_embeddings // block_size
        for head in range(num_heads):
            for row in range(1, all_blocks - 1):  # rows beyond this length also advance the generator
                drawn = state.permutation(_early(row, all_blocks, block_size))[:num_random]
                _check_enough(drawn, num_random)
                if row < num_blocks - 1:
                    chosen[head, row] = drawn
        return torch.from_numpy(chosen)
    reach = 2 * num_random + 5  # all samples come from the first blocks, regardless of the row length
    for row in range(1, num_blocks - 1):
        for head in range(num_heads):
            order = state.permutation(np.arange(reach, dtype=np.int64))
            drawn = order[~np.isin(order, _taken(row, reach))][:num_random]
            _check_enough(drawn, num_random)
            chosen[head, row] = drawn
    return torch.from_numpy(chosen)


def _taken(row: int, reach: int) -> list[int]:
    """Blocks among the first `reach` that a row may not sample: window, ends, and neighbors of the opposite end."""
    taken = [row - 1, row, row + 1, 0, reach - 1]
    if row == 1:
        taken.append(reach - 2)
    if row == reach - 2:
        taken.append(1)
    return taken


def _early(row: int, all_blocks: int, block_size: int) -> np.ndarray:
    """Blocks that a row may sample in the first version: int64 [candidates], ascending."""
    inner = np.arange(1, all_blocks - 1)
    last = (PUBLISHED_REACH // block_size if 2 * block_size < PUBLISHED_REACH else all_blocks) - 1
    if row <= 2:
        return inner[row + 1 : last]
    if row >= all_blocks - 3 or row - 2 > last:
        return inner[:last]
    if row + 1 == last:
        return inner[: row - 2]
    return np.concatenate((inner[: row - 2], inner[row + 1 : last]))


def _check_enough(drawn: np.ndarray, num_random: int) -> None:
    check(
        len(drawn) == num_random,
        f"Only {len(drawn)} blocks are left for {num_random} random ones: decrease num_random_blocks.",
    )


# -- Sequences of a run arranged in blocks, and the keys that each position may attend to ----------------------------


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


# -- Rules of sparse attention: block patterns for any length --------------------------------------------------------
#
# Rules are small hashable values; equal rules give equal patterns, which are cached.


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


# -- Block-sparse attention of one run with one pattern, as a few batched products -----------------------------------
#
# Keys and values of the listed blocks are gathered for each query block, [rows, slots * block, head_dim], and all
# blocks of all heads go through one product. The work is split into parts, some heads of some sequences at a time,
# whose scores fit the CPU cache.


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


# -- Sparse attention over packs: each block of queries attends to the few blocks of keys that a rule lists ----------
#
# Cost is linear in the length (Zaheer et al. 2020, appendix D): no tensor of length x length is created unless the
# weights are requested.


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
