"""Settings for texts longer than the maximum sequence length: truncation, or overlapping windows with pooled logits.

Each window has the special tokens; the logits of a text are the mean or maximum over its windows. A text with one
window has exactly the logits of that window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ...core.config import check
from ...core.errors import ConfigError, ModelFolderError
from ...core.registry import unknown_name
from ..qa.windows import default_stride

WAYS = ("cut", "windows")
POOLS = ("mean", "max")
MAX_WINDOWS = 32  # per row in training; predictions have no limit


@dataclass(frozen=True)
class LongTexts:
    """Window settings for long texts. Raises ConfigError for a value out of range.

    Attributes:
        stride: overlap of neighboring windows in tokens, at most half of the text of a window (default: a third of
            max_length, at most 128).
        pool: "mean" or "max" of the logits of the windows.
        max_windows: maximum number of windows per row in training, evenly spaced.
        both_orders: encode each pair twice instead, truncated, as (A, B) and (B, A), and pool the logits (Radford et
            al. 2018, figure 1, similarity).
    """

    stride: int | None = None
    pool: str = "mean"
    max_windows: int = MAX_WINDOWS
    both_orders: bool = False

    def __post_init__(self) -> None:
        check(
            self.stride is None or (_is_count(self.stride) and self.stride >= 0),
            f"Setting 'stride' is {self.stride!r}; it must be a whole number, 0 or more.",
        )
        check(self.pool in POOLS, unknown_name("pool", str(self.pool), POOLS))
        check(
            _is_count(self.max_windows) and self.max_windows >= 1,
            f"Setting 'max_windows' is {self.max_windows!r}; it must be at least 1.",
        )

    @classmethod
    def of(
        cls,
        long: str = "cut",
        stride: int | None = None,
        pool: str = "mean",
        max_windows: int = MAX_WINDOWS,
        both_orders: bool = False,
    ) -> LongTexts | None:
        """Builds the settings; None for truncation. long: one of WAYS. Raises ConfigError."""
        if long not in WAYS:
            raise ConfigError(unknown_name("way with long texts", str(long), WAYS))
        if both_orders:
            is_plain = long == "cut" and stride is None and pool == "mean" and max_windows == MAX_WINDOWS
            check(is_plain, "Setting 'both_orders' cannot be combined with windows: it truncates each pair.")
            return cls(both_orders=True)
        found = cls(stride, pool, max_windows)
        if long == "windows":
            return found
        strange = [name for name, value in vars(cls()).items() if getattr(found, name) != value]
        check(not strange, f"Setting '{', '.join(strange)}' requires long = windows: add --long windows.")
        return None

    @classmethod
    def for_embeddings(
        cls, facts: Mapping[str, Any], long: str | None = None, stride: int | None = None, pooling: str | None = None
    ) -> LongTexts | None:
        """Settings for embeddings: the given ones, otherwise those that a sentence encoder was trained with.

        facts: its maskwright.json; long: one of WAYS, or None; for token embeddings (pooling "none") texts are
        truncated. Raises ConfigError.
        """
        if long is None and pooling != "none" and facts.get("task") == "similarity":
            found = cls.from_json(facts)
            if found is not None:
                return found if stride is None else replace(found, stride=stride)
        return cls.of(long or "cut", stride)

    def shared(self, size: int, max_length: int) -> int:
        """Overlap of neighboring windows in tokens; size: text tokens per window."""
        wanted = default_stride(max_length) if self.stride is None else self.stride
        return min(wanted, size // 2)

    def pooled(self, logits: Tensor, counts: Sequence[int]) -> Tensor:
        """Pools logits over the windows of each text: float [rows, labels].

        logits: float [windows, labels], row by row; counts: number of windows of each row, at least 1.
        """
        parts = logits.split(list(counts))
        how = torch.mean if self.pool == "mean" else torch.amax
        return torch.stack([how(part, dim=0) for part in parts])

    def to_json(self) -> dict[str, Any]:
        """{"stride", "pool", "max_windows"}, and "both_orders" if true."""
        found = {"stride": self.stride, "pool": self.pool, "max_windows": self.max_windows}
        return {**found, "both_orders": True} if self.both_orders else found

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> LongTexts | None:
        """Reads `facts["long"]`; None if missing. Raises ModelFolderError for invalid values."""
        found = facts.get("long")
        if found is None:
            return None
        known = set(vars(cls()))
        if not isinstance(found, Mapping) or not set(found) <= known:
            raise ModelFolderError(
                f"The model's maskwright.json has a 'long' that is not an object with {sorted(known)}."
            )
        try:
            return cls(**found)
        except ConfigError as error:
            raise ModelFolderError(f"The model's maskwright.json has an invalid 'long': {error}") from None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
