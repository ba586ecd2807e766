"""Model FLOPs utilization (Chowdhery et al. 2022, appendix B).

Counts the matrix products of real tokens at their real lengths and of the vocabulary at scored positions
(`models/flops.py`), not padding, unneeded scores or recomputed activations. So the utilizations of two implementations
of the same training compare as their speeds do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..models import flops
from ..models.config import ModelConfig


def forward_flops(config: ModelConfig, lengths: Sequence[int] | np.ndarray) -> float:
    """Return the FLOPs of one forward pass of the encoder over sequences of these lengths."""
    sizes, counts = np.unique(np.asarray(lengths, dtype=np.int64), return_counts=True)
    return float(
        sum(
            size * count * (flops.linear_flops(config) + flops.attention_flops(config, int(size)))
            for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)
        )
    )


def training_flops(
    config: ModelConfig, lengths: Sequence[int] | np.ndarray, num_scored: int = 0, num_classified: int = 0
) -> float:
    """Return the FLOPs of a training step, forward and backward.

    num_scored: positions with scores over the vocabulary; num_classified: sequences with a two-class head.
    """
    heads = num_scored * flops.word_head_flops(config) + num_classified * flops.sequence_head_flops(config)
    return flops.TRAINING_PASSES * (forward_flops(config, lengths) + heads)
