"""Sparse attention over packs: each block of queries attends to the few blocks of keys that a rule lists.

Cost is linear in the length (Zaheer et al. 2020, appendix D): no tensor of length x length is created unless
the weights are requested.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial, reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ..core.config import check
from ..core.randomness import generator
from .attention import (
    CACHED_SCORES,
    Run,
    attend,
    attend_in_blocks,
    fused_scaled_dot_product,
    scaled_dot_product,
)
from .functions import Function, first_derivative_only
from .layers import dropout
from .positions import RelativePositions, attend_relative

# -- Block patterns: the key blocks of each query block --------------------------------------------------------------

EMPTY = -1  # unused slot of a list


class BlockLists(NamedTuple):
    """Rows of query blocks that share a list.

    rows: int64 [rows, blocks], the query blocks, ascending; key_blocks: int64 [heads, rows, slots], or [1, rows, slots]
    if all heads share it, padded with EMPTY; a block listed twice counts twice.
    """

    rows: Tensor
    key_blocks: Tensor


@dataclass(frozen=True, eq=False)
class BlockPattern:
    """Key blocks of every query block, instead of a matrix of tokens: its size is linear in the length.

    some: the query blocks that attend to some key blocks; full: those that attend to each once, in all heads;
    half_width: maximum distance that a token attends to, None for no limit.
    """

    block_size: int
    num_blocks: int
    some: BlockLists
    full: BlockLists
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
        order = (~sees).to(torch.uint8).argsort(dim=-1, stable=True)
        lists = torch.where(sees.gather(-1, order), order, EMPTY)  # [heads, blocks, blocks]
        if extra is not None:
            lists = torch.cat((lists.expand(extra.shape[0], -1, -1), extra), dim=-1)
        has_none = (lists == EMPTY).all(-1).any()
        check(not bool(has_none), "A query block of the attention pattern has no key block: add at least one.")
        num_blocks = sees.shape[1]
        sees_all = (_count(lists, num_blocks) == 1).all(-1).all(0)  # [blocks]
        if half_width is not None:
            sees_all = torch.zeros_like(sees_all)
        rows, wide = (~sees_all).nonzero().squeeze(1), sees_all.nonzero().squeeze(1)
        lists = lists[:, rows]
        used = (lists != EMPTY).any(0).any(0)  # [slots]
        full = BlockLists(wide[None], torch.arange(num_blocks)[None, None])
        return cls(block_size, num_blocks, BlockLists(rows[:, None], lists[..., used]), full, half_width)

    @property
    def is_full(self) -> bool:
        """Whether attention is full."""
        return len(self.some.rows) == 0

    @property
    def attends_to_own_block(self) -> bool:
        """Whether every query block attends to the keys of the same block."""
        return bool((self.some.key_blocks == self.some.rows).any(-1).all())

    def counts(self) -> Tensor:
        """How often each query block lists each key block: int64 [heads, blocks, blocks], or [1, blocks, blocks]."""
        counted = torch.ones(self.some.key_blocks.shape[0], self.num_blocks, self.num_blocks, dtype=torch.int64)
        counted[:, self.some.rows[:, 0]] = _count(self.some.key_blocks, self.num_blocks)
        return counted

    def block_map(self) -> Tensor:
        """Whether each query block attends to each key block: bool, in the shape of `counts`."""
        return self.counts() > 0

    def draw(self, head: int = 0) -> str:
        """The map of one head as text, a line per query block: "#" is attended to, "." is not."""
        seen = self.block_map()[min(head, self.some.key_blocks.shape[0] - 1)]
        return "\n".join("".join("#" if one else "." for one in row) for row in seen.tolist())

    def extended(self, more: int) -> BlockPattern:
        """The pattern with `more` blocks at the end as keys of every query block of a window."""
        added = torch.arange(self.num_blocks, self.num_blocks + more).expand(*self.some.key_blocks.shape[:2], -1)
        lists = torch.cat([self.some.key_blocks, added], dim=-1)
        return replace(self, num_blocks=self.num_blocks + more, some=self.some._replace(key_blocks=lists))

    def cut(self, num_blocks: int) -> BlockPattern:
        """The pattern of the first `num_blocks` blocks, for a short sequence of a longer padded row."""
        if num_blocks >= self.num_blocks:
            return self
        kept = self.some.rows[:, 0] < num_blocks
        lists, wide = self.some.key_blocks[:, kept], self.full.rows[self.full.rows < num_blocks]
        return replace(
            self,
            num_blocks=num_blocks,
            some=BlockLists(self.some.rows[kept], torch.where(lists < num_blocks, lists, EMPTY)),
            full=BlockLists(wide[None], torch.arange(num_blocks)[None, None]),
        )


def _count(lists: Tensor, num_blocks: int) -> Tensor:
    """How often each block occurs in the lists [heads, rows, slots]: int64 [heads, rows, num_blocks]."""
    counted = torch.zeros(*lists.shape[:-1], num_blocks + 1, dtype=torch.int64)
    counted.scatter_add_(-1, torch.where(lists == EMPTY, num_blocks, lists), torch.ones_like(lists))
    return counted[..., :num_blocks]


# -- Rules: block patterns for any length. They are small hashable values --------------------------------------------


class AttentionRule(Protocol):
    """A rule that generates block patterns. Rules are hashable."""

    @property
    def block_size(self) -> int:
        """Block size in tokens."""

    def is_full_at(self, length: int) -> bool:
        """Whether attention is full in a row of `length` tokens."""

    def pattern(self, num_blocks: int, num_heads: int) -> BlockPattern:
        """Returns the key blocks of each query block in a row of `num_blocks` blocks."""

    def __hash__(self) -> int: ...


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
        sees = _window(num_blocks, self.window_blocks) | _global(num_blocks, self.first_blocks, self.last_blocks)
        extra = None
        if self.random_blocks:
            extra = keyed_random_blocks(~sees, num_heads, self.random_blocks, self.seed, self.layer)
        return BlockPattern.from_map(sees[None], self.block_size, extra=extra)


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
        sees = _window(num_blocks, -(-self.half_width // self.block_size))
        return BlockPattern.from_map(sees[None], self.block_size, half_width=self.half_width)


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
        sees = _window(num_blocks, 1) | _global(num_blocks, 1, 1)
        if self.is_training:
            extra = published_random_blocks(
                num_blocks, self.block_size, self.random_blocks, num_heads, self.max_position_embeddings, self.layer
            )
        else:
            extra = torch.zeros(1, num_blocks, self.random_blocks, dtype=torch.int64)
            extra[:, [0, -1]] = EMPTY
        return BlockPattern.from_map(sees[None], self.block_size, extra=extra)


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


# -- Attention -------------------------------------------------------------------------------------------------------


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
    is_global: Tensor | None = None,
    project_global: Callable[[], Tensor] | None = None,
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
        is_global: bool [tokens], those that attend to all and are attended to by all, None for none; not with relative
            positions.
        project_global: Returns the queries, keys and values of the attention of global tokens, in the shape of qkv.

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
    marks: Sequence[Tensor | None] = [None] * len(sizes)
    projected: Sequence[Tensor | None] = marks
    if project_global is not None and is_global is not None and bool(is_global.any()):
        marks, projected = is_global.split(sizes), project_global().split(sizes)
    contexts: list[Tensor] = []
    weights: list[Tensor] = []
    some: Sequence[Tensor] | None
    for part, place, run, mark, other in zip(qkv.split(sizes), places, runs, marks, projected, strict=True):
        own_run = Run(0, run.count, run.length)
        chosen = None if mark is None else _Global.of(mark.view(run.count, run.length))
        pattern = pattern_for(rule, run.length, num_heads, place, padded_length)
        if pattern is not None:
            check(
                place is None or pattern.attends_to_own_block,
                "In this rule a block may not attend to itself, so rows with gaps could leave a token without any key: "
                "pass no positions, or use a rule with a window.",
            )
            blocks = _Blocks(own_run, place, pattern, num_heads, qkv.device, chosen)
            context, some = blocks.attend(part, dropout_probability, want_weights, relative)
        else:
            fully = attend if relative is None else partial(attend_relative, relative=relative, positions=place)
            context, some = fully(
                part, [own_run], num_heads, dropout_probability=dropout_probability, want_weights=want_weights
            )
        if chosen is not None and other is not None:
            context, some = chosen.attend(other, context, some or (), num_heads, dropout_probability)
        contexts.append(context)
        weights += some or ()
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
    pattern = _pattern(rule, -(-row_length // rule.block_size), num_heads)
    return None if pattern.is_full else pattern.cut(-(-end // rule.block_size))


@lru_cache(maxsize=512)
def _pattern(rule: AttentionRule, num_blocks: int, num_heads: int) -> BlockPattern:
    """Cached, so it is created outside inference mode: training may use it, too."""
    with torch.inference_mode(False):
        return rule.pattern(num_blocks, num_heads)


class _Global(NamedTuple):
    """The global tokens of the sequences of a run.

    mark: bool [count, length]; columns: int64 [count, most], theirs first; real: bool [count, most], whether a column
    is one of them.
    """

    mark: Tensor
    columns: Tensor
    real: Tensor

    @classmethod
    def of(cls, mark: Tensor) -> _Global | None:
        """mark: bool [count, length]; None if there are none."""
        most = int(mark.sum(1).max())
        columns = (~mark).to(torch.uint8).argsort(dim=1, stable=True)[:, :most]
        return cls(mark, columns, mark.gather(1, columns)) if most else None

    @property
    def flat(self) -> Tensor:
        """Their index among the tokens of the run: int64 [global tokens]."""
        count, length = self.mark.shape
        starts = length * torch.arange(count, device=self.mark.device)
        return (self.columns + starts[:, None])[self.real]

    def attend(
        self, tokens: Tensor, context: Tensor, weights: Sequence[Tensor], num_heads: int, dropout_probability: float
    ) -> tuple[Tensor, list[Tensor]]:
        """Replaces the context of global tokens, and their weights if there are any.

        tokens: float [count * length, 3 * hidden], their projections of all tokens; context, weights: of local
        attention, see `_Blocks.attend`.
        """
        count, length = self.mark.shape
        query, key, value = tokens.view(count, length, 3, num_heads, -1).permute(2, 0, 3, 1, 4)
        query = query.gather(2, self.columns[:, None, :, None].expand(-1, num_heads, -1, query.shape[-1]))
        changed = list[Tensor]()
        if weights:
            found, shares = scaled_dot_product(
                query, key, value, dropout_probability
            )  # shares: [count, heads, most, length]
            changed = [
                one.index_copy(1, columns[real], own[:, real])
                for one, columns, real, own in zip(weights, self.columns, self.real, shares, strict=True)
            ]
        elif dropout_probability:
            found = attend_in_blocks(query, key, value, dropout_probability, False, CACHED_SCORES)
        else:
            found = fused_scaled_dot_product(query, key, value)
        return context.index_copy(0, self.flat, found.transpose(1, 2)[self.real].flatten(1)), changed


class _Keys(NamedTuple):
    """What query blocks attend to, on the device.

    rows: int64 [rows, blocks]; lists: int64 [heads or 1, rows, slots]; bias: float, broadcasts to [count, heads, rows,
    queries, slots * block], or None; distances: int64 of such a shape, key - query, or None; heads: the range of heads.
    """

    rows: Tensor
    lists: Tensor
    bias: Tensor | None
    distances: Tensor | None
    heads: slice = slice(None)

    def part(self, sequences: slice, heads: slice) -> _Keys:
        """Selects some sequences and heads."""

        def select(shared: Tensor | None) -> Tensor | None:
            if shared is None:
                return None
            own = shared[sequences] if shared.shape[0] > 1 else shared
            return own[:, heads] if shared.shape[1] > 1 else own

        lists = self.lists[heads] if len(self.lists) > 1 else self.lists
        return _Keys(self.rows, lists, select(self.bias), select(self.distances), heads)


class _Blocks:
    """The sequences of a run as rows of whole blocks, with empty positions at the end or between tokens.

    size: positions of a row; columns: int64 [count, length], the position of each token in its row; flat: int64 [count
    * length], its position in all rows, concatenated; filled: bool [count or 1, size], or None if all are. Global
    tokens are empty in their places as keys, and repeated in blocks at the end of the row, from `inside` on, which
    every query attends to; copies: int64 [2, global tokens], their index in the run, and that of the copy in all rows.
    """

    def __init__(
        self,
        run: Run,
        place: Tensor | None,
        pattern: BlockPattern,
        num_heads: int,
        device: torch.device,
        chosen: _Global | None = None,
    ) -> None:
        self.run, self.num_heads, self.device, self.chosen = run, num_heads, device, chosen
        self.inside = pattern.num_blocks * pattern.block_size
        if chosen is not None:
            pattern = pattern.extended(-(-chosen.columns.shape[1] // pattern.block_size))
        self.pattern = pattern
        self.size = pattern.num_blocks * pattern.block_size
        columns = torch.arange(run.length, device=device) if place is None else place.view(run.count, run.length)
        self.columns = columns.expand(run.count, -1)
        self.flat = (self.columns + self.size * torch.arange(run.count, device=device)[:, None]).reshape(-1)
        self.filled: Tensor | None = None
        if place is not None or run.length < self.size:
            filled = torch.zeros(run.count * self.size, dtype=torch.bool, device=device)
            filled = filled.index_fill(0, self.flat, True).view(run.count, self.size)
            self.filled = filled[:1] if place is None else filled
        if chosen is not None:
            assert self.filled is not None  # the last blocks are empty
            starts = self.size * torch.arange(run.count, device=device)[:, None]
            ends = (self.inside + torch.arange(chosen.columns.shape[1], device=device) + starts)[chosen.real]
            self.copies = torch.stack([chosen.flat, ends])
            filled = self.filled.expand(run.count, -1).reshape(-1).index_fill(0, self.flat[chosen.flat], False)
            self.filled = filled.index_fill(0, ends, True).view(run.count, self.size)

    def attend(
        self, tokens: Tensor, dropout_probability: float, want_weights: bool, relative: RelativePositions | None
    ) -> tuple[Tensor, list[Tensor]]:
        """tokens: float [count * length, 3 * hidden].

        Returns context [count * length, hidden] and, if wanted, weights [heads, length, length] of each sequence. The
        work is split into parts, some heads of some sequences, whose scores fit the CPU cache.
        """
        count, width, pattern = self.run.count, tokens.shape[1], self.pattern
        rows = tokens
        if self.filled is not None:
            rows = tokens.new_zeros(count * self.size, width).index_copy(0, self.flat, tokens)
            if self.chosen is not None:
                rows = rows.index_copy(0, self.copies[1], tokens.index_select(0, self.copies[0]))
        shape = (count, pattern.num_blocks, pattern.block_size, 3, self.num_heads, -1)
        blocks = rows.view(shape).permute(3, 0, 4, 1, 2, 5)  # [3, count, heads, blocks, block, head_dim]
        keys = [
            self._keys(some, relative is not None, tokens.dtype)
            for some in (pattern.some, pattern.full)
            if some.rows.numel()
        ]
        settings = dropout_probability, want_weights, relative
        seen = sum(one.rows.numel() * one.lists.shape[2] for one in keys)
        most = CACHED_SCORES // (seen * pattern.block_size**2)
        heads, sequences = min(max(1, most), self.num_heads), max(1, most // self.num_heads)
        contexts: list[Tensor] = []
        weights: list[Tensor] = []
        for start, group in zip(range(0, count, sequences), blocks.split(sequences, dim=1), strict=True):
            done = []
            for head, part in zip(range(0, self.num_heads, heads), group.split(heads, dim=2), strict=True):
                own = [one.part(slice(start, start + sequences), slice(head, head + heads)) for one in keys]
                done.append(_attend_part(part, own, *settings))
            contexts.append(torch.cat([context for context, _ in done], dim=1))
            if want_weights:
                weights += torch.cat([one for _, one in done], dim=1)
        context = torch.cat(contexts).permute(0, 2, 3, 1, 4).reshape(count * self.size, width // 3)
        taken = [one[:, own[:, None], own] for one, own in zip(weights, self.columns, strict=False)]
        if self.chosen is not None:
            taken = [
                own.index_copy(2, columns[real], one[:, rows, self.inside : self.inside + len(real)][..., real])
                for own, one, rows, columns, real in zip(taken, weights, self.columns, *self.chosen[1:], strict=False)
            ]
        return context if self.filled is None else context.index_select(0, self.flat), taken

    def _keys(self, some: BlockLists, is_relative: bool, dtype: torch.dtype) -> _Keys:
        """Hides empty slots, empty positions, and keys beyond the half width."""
        block, half_width = self.pattern.block_size, self.pattern.half_width
        rows, lists = some.rows.to(self.device), some.key_blocks.to(self.device)
        inside = torch.arange(block, device=self.device)
        lists = lists.clamp(min=0)  # empty slots point at block 0
        columns = (lists[..., None] * block + inside).flatten(-2)  # [heads, rows, slots * block]
        distances = None
        if is_relative or half_width is not None:
            queries = (rows[..., None] * block + inside).flatten(1)  # [rows, queries]
            distances = (columns[:, :, None, :] - queries[..., None])[None]
        found = []
        if self.filled is not None:
            found.append(~self.filled[:, columns].unsqueeze(3))  # [count, heads, rows, 1, keys]
        if bool((some.key_blocks == EMPTY).any()):
            empty = (some.key_blocks == EMPTY).to(self.device)
            found.append(empty.repeat_interleave(block, dim=-1)[None, :, :, None])
        if distances is not None and half_width is not None:
            found.append((distances.abs() > half_width) & (columns < self.inside)[None, :, :, None])
        bias = None
        if found:
            # So low that the weight is 0, but finite: a query without any key (an empty position) causes no NaN.
            hidden, low = reduce(torch.logical_or, found), torch.finfo(dtype).min / 2
            bias = torch.zeros(hidden.shape, dtype=dtype, device=self.device).masked_fill_(hidden, low)
        return _Keys(rows, lists, bias, distances if is_relative else None)


def _attend_part(
    part: Tensor,
    keys: Sequence[_Keys],
    dropout_probability: float,
    want_weights: bool,
    relative: RelativePositions | None,
) -> tuple[Tensor, Tensor]:
    """part: float [3, count, heads, blocks, block, head_dim], some sequences and heads.

    Returns context [count, heads, blocks, block, head_dim] and weights [count, heads, size, size], empty if not wanted.
    """
    query, key, value = part[0] * (1.0 / math.sqrt(part.shape[-1])), part[1].contiguous(), part[2].contiguous()
    context = torch.zeros_like(query)
    weights = query.new_zeros(*query.shape[:4], query.shape[2] * query.shape[3] if want_weights else 0)
    for own in keys:
        rows, (lists, bias) = own.rows.flatten(), (own.lists, own.bias)
        queries = query.index_select(2, rows).unflatten(2, own.rows.shape).flatten(3, 4)
        if relative is None and not want_weights:
            found: Tensor = _BlockProduct.apply(queries, key, value, lists, bias, dropout_probability)
        else:
            near = _gather(key, lists)  # [count, heads, rows, slots * block, head_dim]
            terms = None
            if relative is not None:
                scale = 1.0 / math.sqrt(part.shape[-1])
                terms = relative.score_terms(queries, near, scale, own.distances, own.heads)
            shares = _weights(queries, near, bias, terms)
            dropped = dropout(shares, dropout_probability)
            found = dropped @ _gather(value, lists)
            more = None if relative is None else relative.context_terms(dropped, own.distances)
            found = found if more is None else found + more
            if want_weights:
                spread = _spread(shares, lists, query.shape[2]).unflatten(3, (-1, query.shape[3])).flatten(2, 3)
                weights = weights.index_copy(2, rows, spread)
        found = found.unflatten(3, (-1, query.shape[3])).flatten(2, 3)  # [count, heads, blocks, block, head_dim]
        context = context.index_copy(2, rows, found)
    return context, weights.flatten(2, 3)


def _weights(query: Tensor, keys: Tensor, bias: Tensor | None, terms: Tensor | None = None) -> Tensor:
    """query: [..., queries, head_dim], scaled; keys: [..., keys, head_dim]. Returns [..., queries, keys]."""
    scores = query @ keys.mT
    if terms is not None:
        scores = scores + terms
    if bias is not None:
        scores += bias
    return torch.softmax(scores, dim=-1)


class _BlockProduct(Function):
    """softmax(q k^T) v over listed blocks. Stores its inputs and, with dropout, one byte per weight.

    The backward pass gathers and multiplies again: autograd would store the gathered keys and values and the weights,
    at 4,096 tokens in BigBird's pattern six times the memory of queries, keys and values together.
    """

    @staticmethod
    def forward(
        context: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        lists: Tensor,
        bias: Tensor | None,
        dropout_probability: float,
    ) -> Tensor:
        """query: float [count, heads, rows, queries, head_dim], like the result; key, value: as in `_gather`."""
        weights = _weights(query, _gather(key, lists), bias)
        keep = scale = None
        if dropout_probability > 0.0:
            factors = dropout(weights.new_ones(()).expand(weights.shape), dropout_probability)
            keep, scale = factors != 0, factors.amax()
            weights *= factors
        result = weights @ _gather(value, lists)
        context.save_for_backward(query, key, value, lists, bias, keep, scale, result)
        return result

    @staticmethod
    @first_derivative_only
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of q, k and v from that of the result, [count, heads, rows, queries, head_dim]."""
        query, key, value, lists, bias, keep, scale, result = context.saved_tensors
        gradient, keys = gradients[0], _gather(key, lists)
        weights = _weights(query, keys, bias)
        of_scores = gradient @ _gather(value, lists).mT  # [..., queries, keys], gradient of the weights so far
        dropped = weights
        if keep is not None:
            dropped = (weights * keep).mul_(scale)
            of_scores.mul_(keep).mul_(scale)
        of_value = _scatter(dropped.mT @ gradient, value.shape, lists)
        # Backward pass of softmax, w * (g - sum(w g)); the sum is the dot product of the result and its gradient.
        of_scores.sub_((gradient * result).sum(-1, keepdim=True)).mul_(weights)
        of_key = _scatter(of_scores.mT @ query, key.shape, lists)
        return of_scores @ keys, of_key, of_value, None, None, None


def _gather(blocks: Tensor, lists: Tensor) -> Tensor:
    """Gathers the listed blocks for each query block: [count, heads, rows, slots * block, head_dim].

    blocks: [count, heads, blocks, block, head_dim]; lists: int64 [heads or 1, rows, slots].
    """
    count, heads, num_blocks, block, head_dim = blocks.shape
    flat = blocks.reshape(count * heads * num_blocks, block * head_dim)
    gathered = flat.index_select(0, _flat_index(blocks.shape, lists))
    return gathered.view(count, heads, lists.shape[1], lists.shape[2] * block, head_dim)


def _scatter(gradient: Tensor, shape: torch.Size, lists: Tensor) -> Tensor:
    """The backward pass of `_gather`: sums the gradients of each block of [count, heads, blocks, block, head_dim]."""
    count, heads, num_blocks, block, head_dim = shape
    total = gradient.new_zeros(count * heads * num_blocks, block * head_dim)
    total.index_add_(0, _flat_index(shape, lists), gradient.reshape(-1, block * head_dim))
    return total.view(shape)


def _flat_index(shape: torch.Size, lists: Tensor) -> Tensor:
    """Lists as row indices of [count * heads * blocks, ...]: int64 [count * heads * rows * slots]."""
    count, heads, num_blocks = shape[:3]
    first = torch.arange(count * heads, device=lists.device).view(count, heads, 1, 1) * num_blocks
    return (first + lists).reshape(-1)


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
