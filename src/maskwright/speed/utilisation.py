"""Model FLOPs utilisation: the operations that a network needs for what it was given, beside what the device could do.

Counted are the matrix products of real tokens at their real lengths and the vocabulary at the positions that are scored
(`models/flops.py`), whatever a contender computes besides: padding, scores nobody asked for, layers run again. So two
ways to train one network on one text have shares that compare as their times do (Chowdhery et al. 2022, appendix B).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..models import flops
from ..models.config import ModelConfig


def forward_flops(config: ModelConfig, lengths: Sequence[int] | np.ndarray) -> float:
    """Of the encoder, once through sequences of these lengths."""
    sizes, counts = np.unique(np.asarray(lengths, dtype=np.int64), return_counts=True)
    return float(
        sum(
            size * count * (flops.linear_flops(config) + flops.attention_flops(config, int(size)))
            for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)
        )
    )


def training_flops(
    config: ModelConfig, lengths: Sequence[int] | np.ndarray, num_scored: int = 0, num_judged: int = 0
) -> float:
    """Of a training step, all passes. num_scored: positions whose whole vocabulary is scored; num_judged: sequences
    that a head of two outputs judges."""
    heads = num_scored * flops.word_head_flops(config) + num_judged * flops.sequence_head_flops(config)
    return flops.TRAINING_PASSES * (forward_flops(config, lengths) + heads)
