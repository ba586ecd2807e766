"""What becomes of texts longer than the model takes, in tasks that answer once for each text: they are cut, or read in
windows whose outputs are pooled.

With windows a text is several overlapping sequences, each with the special tokens, and its logits are the mean, or the
largest, of those of its windows. A text of one window has the logits of that window, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..core.config import check
from ..core.errors import ConfigError, ModelFolderError
from ..core.registry import unknown_name
from .qa_windows import default_stride

LONG_SETTINGS = ("long", "stride", "pool", "max_windows", "both_orders")  # of a recipe
WAYS = ("cut", "windows")
POOLS = ("mean", "max")
MAX_WINDOWS = 32  # windows of one row in training; answers have no such limit


@dataclass(frozen=True)
class LongTexts:
    """Long texts are read in windows. Raises ConfigError for a setting out of range.

    stride: tokens that neighbouring windows share (None: a third of max_length, at most 128), never more than half of
    what a window shows of the text; pool: "mean" or "max" of the windows' logits; max_windows: of one row in training,
    spread evenly over a longer one. both_orders: instead, a pair is read twice, cut, as (A, B) and as (B, A), and the
    logits of both are pooled (Radford et al. 2018, figure 1, similarity).
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
        """The settings of a recipe; None where texts are cut. long: a name of WAYS. Raises ConfigError."""
        if long not in WAYS:
            raise ConfigError(unknown_name("way with long texts", str(long), WAYS))
        if both_orders:
            is_plain = long == "cut" and stride is None and pool == "mean" and max_windows == MAX_WINDOWS
            check(is_plain, "Setting 'both_orders' reads each pair twice, cut; it does not go with windows.")
            return cls(both_orders=True)
        found = cls(stride, pool, max_windows)
        if long == "windows":
            return found
        strange = [name for name, value in vars(cls()).items() if getattr(found, name) != value]
        check(not strange, f"Setting '{', '.join(strange)}' goes with long = windows: give --long windows too.")
        return None

    @classmethod
    def for_vectors(
        cls, facts: Mapping[str, Any], long: str | None = None, stride: int | None = None, pooling: str | None = None
    ) -> LongTexts | None:
        """How texts become vectors: as is asked for, else as an encoder of sentences was trained (its maskwright.json).

        long: a name of WAYS, or None; vectors of tokens (pooling "none") are of texts that are cut. Raises ConfigError.
        """
        if long is None and pooling != "none" and facts.get("task") == "similarity":
            found = cls.from_json(facts)
            if found is not None:
                return found if stride is None else replace(found, stride=stride)
        return cls.of(long or "cut", stride)

    def shared(self, size: int, max_length: int) -> int:
        """Tokens that neighbours share, where a window shows `size` tokens of the text."""
        wanted = default_stride(max_length) if self.stride is None else self.stride
        return min(wanted, size // 2)

    def pooled(self, logits: Tensor, counts: Sequence[int]) -> Tensor:
        """One row of logits for each text: float [rows, labels].

        logits: float [windows, labels], row by row; counts: windows of each row, all 1 or more.
        """
        parts = logits.split(list(counts))
        how = torch.mean if self.pool == "mean" else torch.amax
        return torch.stack([how(part, dim=0) for part in parts])

    def to_json(self) -> dict[str, Any]:
        """{"stride", "pool", "max_windows"}, and "both_orders" where they are read."""
        found = {"stride": self.stride, "pool": self.pool, "max_windows": self.max_windows}
        return {**found, "both_orders": True} if self.both_orders else found

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> LongTexts | None:
        """What `facts["long"]` says; None without such an entry. Raises ModelFolderError when it does not fit."""
        found = facts.get("long")
        if found is None:
            return None
        known = set(vars(cls()))
        if not isinstance(found, Mapping) or not set(found) <= known:
            raise ModelFolderError(f"The model's maskwright.json has a 'long' that is no object of {sorted(known)}.")
        try:
            return cls(**found)
        except ConfigError as error:
            raise ModelFolderError(f"The model's maskwright.json says of long texts: {error}") from None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
