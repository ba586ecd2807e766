"""The random blocks of BigBird: our own from the keyed generator, and those of the published implementation."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..core.config import check
from ..core.randomness import generator
from .sparse_pattern import EMPTY

# Row lengths for which the published implementation draws in the way of the paper's first version: from the first
# PUBLISHED_REACH tokens, by the longest row that the model takes.
PUBLISHED_LENGTHS = (1024, 3072, 4096)
PUBLISHED_REACH = 1024


def keyed_random_blocks(allowed: Tensor, num_heads: int, num_random: int, seed: int, layer: int) -> Tensor:
    """Up to `num_random` different key blocks for each query block and head, out of those that are allowed.

    allowed: bool [blocks, blocks], query block by key block. Returns int64 [heads, blocks, num_random], EMPTY where
    fewer are allowed. A function of (seed, layer, blocks, head): the same in training and afterwards, whatever else was
    drawn.
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
    """What transformers' BigBird draws in training, from numpy's old generator seeded by the number of the layer.

    num_blocks: of the padded row; it must be more than 5 + 2 * num_random, below which transformers attends fully.
    Returns int64 [heads, blocks, num_random], EMPTY for the first and the last query block. Blocks may repeat those of
    the window and the last one, as they do there. Raises ConfigError where too few blocks are left to draw from.
    """
    check(
        num_blocks > 5 + 2 * num_random,
        f"{num_blocks} blocks are too few for {num_random} random ones: up to {5 + 2 * num_random}, attend fully.",
    )
    state = np.random.RandomState(layer)  # the old generator is part of the published behaviour
    chosen = np.full((num_heads, num_blocks, num_random), EMPTY, dtype=np.int64)
    if num_blocks * block_size in PUBLISHED_LENGTHS:
        all_blocks = max_position_embeddings // block_size
        for head in range(num_heads):
            for row in range(1, all_blocks - 1):  # rows beyond this length draw too, and move the generator on
                drawn = state.permutation(_early(row, all_blocks, block_size))[:num_random]
                _check_enough(drawn, num_random)
                if row < num_blocks - 1:
                    chosen[head, row] = drawn
        return torch.from_numpy(chosen)
    reach = 2 * num_random + 5  # all draws come from the first blocks, however long the row is
    for row in range(1, num_blocks - 1):
        for head in range(num_heads):
            order = state.permutation(np.arange(reach, dtype=np.int64))
            drawn = order[~np.isin(order, _taken(row, reach))][:num_random]
            _check_enough(drawn, num_random)
            chosen[head, row] = drawn
    return torch.from_numpy(chosen)


def _taken(row: int, reach: int) -> list[int]:
    """Blocks among the first `reach` that a row may not draw: its window, the ends, and what touches the other end."""
    taken = [row - 1, row, row + 1, 0, reach - 1]
    if row == 1:
        taken.append(reach - 2)
    if row == reach - 2:
        taken.append(1)
    return taken


def _early(row: int, all_blocks: int, block_size: int) -> np.ndarray:
    """Blocks that a row may draw in the way of the first version: int64 [candidates], ascending."""
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
        f"Only {len(drawn)} blocks are left where {num_random} random ones are wanted: lower num_random_blocks.",
    )
