"""Random blocks of BigBird: from our keyed generator, and exactly as in the published implementation."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..core.config import check
from ..core.randomness import generator
from .sparse_pattern import EMPTY

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
