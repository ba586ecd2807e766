"""Decision thresholds that record the rows that they were tuned on.

Scores on the rows that a threshold was tuned on are too optimistic. So a `Threshold` stores the keys of its rows, for
scoring code to check; `two_halves` splits rows so that each half can be scored with the threshold of the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from ...core.errors import ModelFolderError


@dataclass(frozen=True)
class Threshold:
    """A decision threshold: scores above `value` are positive; seen: keys of the rows that it was tuned on."""

    value: float = 0.0
    seen: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """Serializes it with its row keys, so that a saved threshold is not evaluated on its own rows either."""
        return {"value": self.value, "tuned_on": sorted(self.seen)}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Threshold:
        """Builds it from the result of `to_json`. Raises ModelFolderError for invalid values."""
        value, seen = facts.get("value"), facts.get("tuned_on", [])
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and np.isfinite(value)
        if not is_number or not isinstance(seen, list) or not all(isinstance(key, str) for key in seen):
            raise ModelFolderError("maskwright.json contains an invalid threshold: save the model again.")
        return cls(float(value), frozenset(seen))  # type: ignore[arg-type]  # is_number


def row_key(first: str, second: str | None = None) -> str:
    """Hash of a text or pair, 16 hexadecimal digits; row ids would not be unique across files."""
    text = first if second is None else f"{first}\0{second}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def between(scores: np.ndarray, count: int) -> float:
    """A finite number that all sorted scores, float [rows], exceed, except for the `count` lowest."""
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
    """Splits rows into two random halves with equal numbers (to within one) of positive rows.

    keys: row keys; rows with the same key are in the same half. is_positive: bool [rows]. Returns the row numbers of
    each half, int64, ascending.
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
