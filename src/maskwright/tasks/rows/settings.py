"""Settings that several tasks have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...core.config import LONG_TEXTS, TASK, check, option


@dataclass(frozen=True, kw_only=True)
class LongTextSettings:
    """Settings for texts longer than the maximum sequence length; see `long_texts.LongTexts`."""

    long: Literal["cut", "windows"] = option(
        "cut", "Truncate longer texts, or read them in overlapping windows.", panel=LONG_TEXTS
    )
    stride: int | None = option(
        None,
        "Tokens that neighboring windows share.",
        default_help="a third of --max-length, at most 128 tokens",
        panel=LONG_TEXTS,
    )
    pool: Literal["mean", "max"] = option("mean", "How the logits of the windows are pooled.", panel=LONG_TEXTS)
    max_windows: int = option(
        32, "Maximum windows per text in training, spread evenly over longer ones.", panel=LONG_TEXTS
    )

    def __post_init__(self) -> None:
        from .long_examples import LongTexts

        LongTexts.of(self.long, self.stride, self.pool, self.max_windows)


@dataclass(frozen=True, kw_only=True)
class PairOrderSettings(LongTextSettings):
    """Settings for long texts and pairs."""

    both_orders: bool = option(False, "Read each pair as A B and as B A and pool their logits.", panel=TASK)

    def __post_init__(self) -> None:
        from .long_examples import LongTexts

        LongTexts.of(self.long, self.stride, self.pool, self.max_windows, self.both_orders)


@dataclass(frozen=True, kw_only=True)
class ScoreSettings:
    """Settings of scores as labels."""

    score_range: tuple[float, float] | None = option(
        None,
        "Lowest and highest score; rows outside are invalid.",
        metavar="LOW HIGH",
        default_help="any number",
        panel=TASK,
    )


def as_range(ends: Sequence[float] | None) -> tuple[float, float] | None:
    """Validates (smallest, largest) score; None for any. Raises ConfigError for an invalid range."""
    if ends is None:
        return None
    is_pair = isinstance(ends, Sequence) and not isinstance(ends, str) and len(ends) == 2
    fits = is_pair and all(isinstance(end, (int, float)) and math.isfinite(end) for end in ends) and ends[0] < ends[1]
    shown = " ".join(f"{end:g}" if isinstance(end, float) else str(end) for end in ends) if is_pair else repr(ends)
    check(fits, f"Setting 'score_range' is {shown}; it must be the smallest and the largest score, for example 0 5.")
    return float(ends[0]), float(ends[1])
