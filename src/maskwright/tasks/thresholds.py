"""From which score on a row counts as positive: a threshold that remembers the rows that it was chosen on.

A threshold that was chosen on the rows it is reported on looks better than it is. So a `Threshold` keeps the keys of
its rows, and whoever scores rows asks whether they are among them; `two_halves` divides rows so that each half can be
scored with the threshold of the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from ..core.errors import ModelFolderError


@dataclass(frozen=True)
class Threshold:
    """What lies above `value` is positive; seen: the keys of the rows that chose it."""

    value: float = 0.0
    seen: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """For a model's folder; the rows stay with it, so that a saved threshold cannot be reported on them either."""
        return {"value": self.value, "tuned_on": sorted(self.seen)}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Threshold:
        """The threshold of `to_json`. Raises ModelFolderError when it is none."""
        value, seen = facts.get("value"), facts.get("tuned_on", [])
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and np.isfinite(value)
        if not is_number or not isinstance(seen, list) or not all(isinstance(key, str) for key in seen):
            raise ModelFolderError("maskwright.json holds a threshold that is not one: save the model again.")
        return cls(float(value), frozenset(seen))  # type: ignore[arg-type]


def row_key(first: str, second: str | None = None) -> str:
    """Sixteen hexadecimal digits of a text, or a pair of them; ids are not enough, files share them."""
    text = first if second is None else f"{first}\0{second}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def between(scores: np.ndarray, count: int) -> float:
    """A finite number that only the `count` lowest of the sorted scores, float [rows], do not exceed."""
    finite = scores[np.isfinite(scores)]
    if not len(finite):
        return 0.0
    if count == 0:
        return float(finite[0]) - 1.0
    if count >= len(finite):
        return float(finite[-1]) + 1.0
    low, high = float(finite[count - 1]), float(finite[count])
    middle = low + (high - low) / 2
    return middle if middle < high else low


def two_halves(
    keys: Sequence[str], is_positive: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of two halves, with as many positive rows in each (but for one): int64 [rows of the half], ascending.

    keys: of the rows; rows of one key are in one half only. is_positive: bool [rows].
    """
    where: dict[str, list[int]] = {}
    for row, key in enumerate(keys):
        where.setdefault(key, []).append(row)
    names = list(where)
    shuffled = [names[place] for place in generator.permutation(len(names))]
    parts: tuple[list[int], list[int]] = ([], [])
    for kind in (True, False):
        own = [key for key in shuffled if bool(is_positive[where[key][0]]) == kind]
        for place, key in enumerate(own):
            parts[(place + (not kind)) % 2].extend(where[key])
    first, second = (np.array(sorted(part), dtype=np.int64) for part in parts)
    return first, second
