"""Rare classes: decision thresholds and scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, ClassVar, Self

import numpy as np

from ...core.config import check, from_dict
from ...core.errors import InputError, ModelFolderError
from ...core.progress import warn
from ...core.randomness import generator
from . import metrics as scores

# -- Decision thresholds that record the rows that they were tuned on ------------------------------------------------
#
# Scores on the rows that a threshold was tuned on are too optimistic: `two_halves` splits rows so that each half can be
# scored with the threshold of the other.


@dataclass(frozen=True)
class Fitted:
    """A number that was fitted on rows. seen: their keys, so that a saved number is not evaluated on its own rows."""

    KIND: ClassVar[str]
    KEY: ClassVar[str]  # of the row keys in maskwright.json
    ABOVE: ClassVar[float] = -math.inf  # what the number must be above

    value: float
    seen: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, self.KEY: sorted(self.seen)}

    @classmethod
    def from_json(cls, facts: Any) -> Self:
        known = facts if isinstance(facts, Mapping) else {}
        value: Any = known.get("value")
        seen = known.get(cls.KEY, [])
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        are_keys = isinstance(seen, list) and all(isinstance(key, str) for key in seen)
        if not is_number or not are_keys or value <= cls.ABOVE:
            raise ModelFolderError(f"maskwright.json contains an invalid {cls.KIND}: save the model again.")
        return cls(float(value), frozenset(seen))


@dataclass(frozen=True)
class Threshold(Fitted):
    """A decision threshold: scores above `value` are positive."""

    KIND, KEY = "threshold", "tuned_on"

    value: float = 0.0

    @classmethod
    def mean(cls, of: Sequence[Threshold]) -> Threshold:
        """The mean of the thresholds of several models, tuned on all of their rows."""
        return cls(sum(one.value for one in of) / len(of), frozenset().union(*(one.seen for one in of)))


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


# -- The positive class, and its metrics: accuracy says little of a class with 5% of the rows --------------------------

PRECISION = 0.9  # for recall_at_precision_90
UNTUNED = 0.5  # threshold if none can be tuned


@dataclass(frozen=True)
class RareClass:
    """The positive class of pr_auc and f1.

    label: its name; tunes: whether to tune a threshold on its probability on dev examples; precision: None to tune for
    the best F1, otherwise the minimum precision, with the highest recall; threshold: the tuned threshold, None before
    tuning, then the class is predicted if it is the most probable one.
    """

    label: str
    tunes: bool = False
    precision: float | None = None
    threshold: Threshold | None = None

    def __post_init__(self) -> None:
        check(self.precision is None or 0 < self.precision <= 1, "The precision of a rare class is above 0, at most 1.")

    def tuned(self, probabilities: np.ndarray, gold: np.ndarray, keys: Sequence[str]) -> RareClass:
        """Returns the class with a threshold tuned on rows: probabilities float [rows], gold bool [rows], row keys.
        Warns if no threshold reaches the required precision.
        """
        if not gold.any():
            warn(f"No dev example is of the class '{self.label}': no threshold can be tuned; using {UNTUNED}.")
            return replace(self, threshold=Threshold(UNTUNED))
        threshold = choose_threshold(probabilities, gold, keys, self.precision)
        given = probabilities > threshold.value
        reached = float(gold[given].mean()) if given.any() else 0.0
        if self.precision is not None and reached < self.precision:
            warn(
                f"No threshold reaches a precision of {self.precision:g} for '{self.label}' on the dev examples; using "
                f"the one with the highest, {reached:.3f}."
            )
        return replace(self, threshold=threshold)

    def thresholds(self, probabilities: np.ndarray, gold: np.ndarray, keys: Sequence[str]) -> np.ndarray:
        """Out-of-fold threshold for scoring each row, float64 [rows]: that of the model if it was tuned on other rows;
        otherwise each half of the rows has the threshold tuned on the other half.
        """
        if self.threshold is not None and not self.threshold.seen.intersection(keys):
            return np.full(len(probabilities), self.threshold.value)
        found = np.full(len(probabilities), UNTUNED)
        first, second = two_halves(keys, gold, generator(0, "rare-halves"))
        for scored, chosen in ((first, second), (second, first)):
            if len(scored) and gold[chosen].any():
                found[scored] = choose_threshold(
                    probabilities[chosen], gold[chosen], [keys[row] for row in chosen], self.precision
                ).value
        return found

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"threshold": self.threshold and self.threshold.to_json()}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> RareClass:
        threshold = facts.get("threshold")
        return from_dict(
            cls, {**facts, "threshold": None if threshold is None else Threshold.from_json(threshold)}, "'rare'"
        )


def joined_rare(
    classes: Sequence[RareClass | None], temperatures: Sequence[float], is_binary: bool
) -> RareClass | None:
    """The rare class of an ensemble that averages calibrated probabilities.

    classes: of each model; is_binary: whether the class has a binary decision, so that a threshold can be converted to
    any temperature. If all models have a threshold for the same class, their mean is used; otherwise it warns and drops
    the thresholds, and keeps the class of the first model for the metrics.
    """
    first, known = classes[0], [one.threshold for one in classes if one is not None and one.threshold is not None]
    if not known:
        return first
    labels = {None if one is None else one.label for one in classes}
    is_same_scale = is_binary or all(value == 1.0 for value in temperatures)
    if first is not None and len(labels) == 1 and len(known) == len(classes) and is_same_scale:
        pairs = zip(known, temperatures, strict=True)
        scaled = [
            # A binary probability at another temperature.
            replace(one, value=1 / (1 + math.exp(-math.log(one.value / (1 - one.value)) / temperature)))
            if temperature != 1.0 and 0 < one.value < 1
            else one
            for one, temperature in pairs
        ]
        return replace(first, threshold=Threshold.mean(scaled))
    warn("The models have no comparable thresholds for the same class: the ensemble predicts the most probable class.")
    return None if first is None else RareClass(first.label)


def choose_threshold(
    values: np.ndarray, gold: np.ndarray, keys: Sequence[str], precision: float | None = None
) -> Threshold:
    """Finds the threshold with the best F1, or with the highest recall at this precision.

    values: float [rows], higher for the class; gold: bool [rows]; keys: row keys, recorded in the threshold. Tries
    every cut between two different values; of equals the lowest. If no cut has the precision, the one with the highest
    is used. Raises InputError if no row is of the class.
    """
    total = int(gold.sum())
    if not total:
        raise InputError("Tuning a threshold needs rows of the class: pass more rows.")
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    above = total - np.concatenate([[0], np.cumsum(gold[order])])  # above[n]: of the class, without the n lowest
    cuts = np.flatnonzero(np.concatenate([[True], ordered[1:] > ordered[:-1]]))  # equal values stay together
    given = len(values) - cuts  # rows predicted as the class
    if precision is None:
        quality = 2 * above[cuts] / (given + total)
    else:
        reached = above[cuts] / given
        quality = np.where(reached >= precision, 1 + above[cuts] / total, reached)
    best = int(cuts[int(np.argmax(np.round(quality, 12)))])
    return Threshold(between(ordered, best), frozenset(keys))


def rare_metrics(gold: np.ndarray, values: np.ndarray, given: np.ndarray | None = None) -> dict[str, float]:
    """pr_auc, f1 and recall_at_precision_90 of one class against the rest.

    gold: bool [rows]; values: float [rows], higher for the class; given: bool [rows], predictions (None: no f1).
    """
    decided = {} if given is None else {"f1": scores.f1(gold.astype(int), given.astype(int))}
    return {
        "pr_auc": scores.pr_auc(gold, values),
        **decided,
        "recall_at_precision_90": scores.recall_at_precision(gold, values, PRECISION),
    }
