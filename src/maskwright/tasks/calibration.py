"""How sure a model may say it is: temperature scaling, and the error that is left.

One number T divides the logits before the softmax (Guo et al. 2017, equation 9). It changes no answer, only how sure it
is; it is the T with the least cross-entropy over some rows. On the rows that it was fitted on it looks better than it
is. So a `Temperature` remembers its rows, and rows that it has seen are judged in two halves, each with the temperature
of the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import InputError, ModelFolderError
from ..core.randomness import generator
from . import metrics as scores
from .thresholds import row_key

LEAST, MOST = 0.05, 20.0  # temperatures beyond say no more than that the rows are all right, or all chance
_HALVINGS = 60


@dataclass(frozen=True)
class Decisions:
    """Choices among classes: one for each row, each word, or each pair of row and label.

    logits: float64 [decisions, classes]; gold: int64 [decisions]; keys: of each decision the key of its row; given:
    int64 [decisions], what is answered where a threshold has a say, None for the largest logit.
    """

    logits: np.ndarray
    gold: np.ndarray
    keys: Sequence[str]
    given: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.gold)

    def take(self, chosen: np.ndarray) -> Decisions:
        """Those at the places `chosen`."""
        given = None if self.given is None else self.given[chosen]
        return Decisions(self.logits[chosen], self.gold[chosen], [self.keys[place] for place in chosen], given)

    @property
    def answered(self) -> np.ndarray:
        """The class that is answered: int64 [decisions]."""
        best: np.ndarray = self.logits.argmax(axis=1) if self.given is None else self.given
        return best


@dataclass(frozen=True)
class Temperature:
    """What logits are divided by; seen: the keys of the rows that it was fitted on."""

    value: float = 1.0
    seen: frozenset[str] = frozenset()

    @property
    def is_at_limit(self) -> bool:
        """Whether the rows did not determine it: all of them right, or no better than chance."""
        return not LEAST * 1.001 < self.value < MOST / 1.001

    def to_json(self) -> dict[str, Any]:
        """For a model's folder; the keys stay with it, so that a saved one is not judged on its own rows either."""
        return {"value": self.value, "fitted_on": sorted(self.seen)}

    @classmethod
    def from_json(cls, facts: Any) -> Temperature:
        """The temperature of `to_json`. Raises ModelFolderError when it is none."""
        value = facts.get("value") if isinstance(facts, Mapping) else None
        seen = facts.get("fitted_on", []) if isinstance(facts, Mapping) else None
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and np.isfinite(value) and value > 0
        if not is_number or not isinstance(seen, list) or not all(isinstance(key, str) for key in seen):
            raise ModelFolderError(
                "maskwright.json holds a temperature that is not one: fit it again with maskwright calibrate."
            )
        return cls(float(value), frozenset(seen))  # type: ignore[arg-type]


def row_keys(rows: Sequence[Any]) -> list[str]:
    """A short name of each row's texts, the same in whatever file it stands."""
    return [row_key(row.text, row.text_pair) for row in rows]


def probabilities(logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """softmax(logits / temperature): float64 [decisions, classes]."""
    scaled = logits / temperature
    grown = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    shares: np.ndarray = grown / grown.sum(axis=1, keepdims=True)
    return shares


def cross_entropy(decisions: Decisions, temperature: float = 1.0) -> float:
    """Mean negative log probability of the gold class, in nats."""
    scaled = decisions.logits / temperature
    top = scaled.max(axis=1)
    total = np.log(np.exp(scaled - top[:, None]).sum(axis=1)) + top
    return float((total - scaled[np.arange(len(scaled)), decisions.gold]).mean())


def fit_temperature(decisions: Decisions) -> Temperature:
    """The temperature with the least cross-entropy over these decisions, between LEAST and MOST.

    In 1/T the cross-entropy is convex: its slope, expected minus gold logit, is 0 at one place, which is found by
    halving. Raises InputError without decisions.
    """
    if not len(decisions):
        raise InputError("A temperature needs rows with known labels to be fitted on.")
    gold = decisions.logits[np.arange(len(decisions)), decisions.gold].mean()
    low, high = np.log(1 / MOST), np.log(1 / LEAST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        expected = (probabilities(decisions.logits, float(np.exp(-middle))) * decisions.logits).sum(axis=1).mean()
        low, high = (low, middle) if expected > gold else (middle, high)
    return Temperature(float(np.exp(-(low + high) / 2)), frozenset(decisions.keys))


def honest_probabilities(decisions: Decisions, temperature: Temperature | None, seed: int = 0) -> np.ndarray:
    """Probabilities that no row had a part in shaping for itself: float64 [decisions, classes].

    With `temperature`; but where it was fitted on any of these rows, each half of them with that of the other half (as
    they are where there are no two different rows).
    """
    if temperature is None:
        return probabilities(decisions.logits)
    if temperature.seen.isdisjoint(decisions.keys):
        return probabilities(decisions.logits, temperature.value)
    return cross_probabilities(decisions, seed)


def cross_probabilities(decisions: Decisions, seed: int = 0) -> np.ndarray:
    """Each half of the rows with the temperature of the other half. Rows of one text are in one half."""
    names = list(dict.fromkeys(decisions.keys))
    if len(names) < 2:
        return probabilities(decisions.logits)
    order = generator(seed, "calibration-halves").permutation(len(names))
    half_of = {names[place]: number % 2 for number, place in enumerate(order.tolist())}
    halves = np.array([half_of[key] for key in decisions.keys])
    result = np.empty_like(decisions.logits)
    for half in (0, 1):
        other = fit_temperature(decisions.take(np.flatnonzero(halves != half)))
        result[halves == half] = probabilities(decisions.logits[halves == half], other.value)
    return result


def calibration_errors(gold: np.ndarray, shares: np.ndarray) -> dict[str, float]:
    """ece and ece_equal_mass of probabilities [decisions, classes]."""
    return {"ece": scores.ece(gold, shares), "ece_equal_mass": scores.ece_equal_mass(gold, shares)}
