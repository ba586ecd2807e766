"""Calibration of probabilities, and selective prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import InputError
from ...core.randomness import generator
from . import metrics as scores
from .rare import Fitted, row_key, two_halves

# -- Calibration by temperature scaling, and calibration errors ------------------------------------------------------
#
# A temperature T divides the logits before the softmax (Guo et al. 2017, equation 9). It changes confidences, not
# predictions, and minimizes the cross-entropy on some rows. Scores on these rows are too optimistic. So a `Temperature`
# records its rows, and such rows are scored in two halves, each with the temperature of the other.

LEAST, MOST = 0.05, 20.0  # fitted beyond only if all rows are correct, or no better than chance
_HALVINGS = 60


@dataclass(frozen=True)
class Decisions:
    """Class decisions: one per row, per word, or per (row, label).

    logits: float64 [decisions, classes]; gold: int64 [decisions]; keys: row key of each decision; given: int64
    [decisions], predicted classes if they depend on a threshold, None for the largest logit.
    """

    logits: np.ndarray
    gold: np.ndarray
    keys: Sequence[str]
    given: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.gold)

    def take(self, chosen: np.ndarray) -> Decisions:
        given = None if self.given is None else self.given[chosen]
        return Decisions(self.logits[chosen], self.gold[chosen], [self.keys[place] for place in chosen], given)

    @property
    def answered(self) -> np.ndarray:
        best: np.ndarray = self.logits.argmax(axis=1) if self.given is None else self.given
        return best


@dataclass(frozen=True)
class Temperature(Fitted):
    """A temperature that divides logits."""

    KIND, KEY, ABOVE = "temperature", "fitted_on", 0.0

    value: float = 1.0

    @property
    def is_at_limit(self) -> bool:
        """Whether it is at a limit: all rows correct, or no better than chance."""
        return not LEAST * 1.001 < self.value < MOST / 1.001


def row_keys(rows: Sequence[Any]) -> list[str]:
    """Keys of rows, computed from their texts; see `row_key`."""
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
    """Fits the temperature with the lowest cross-entropy over these decisions, between LEAST and MOST.

    The cross-entropy is convex in 1/T; the zero of its slope, expected minus gold logit, is found by bisection. Raises
    InputError if there are no decisions.
    """
    if not len(decisions):
        raise InputError("Fitting a temperature needs labeled rows.")
    gold = decisions.logits[np.arange(len(decisions)), decisions.gold].mean()
    low, high = np.log(1 / MOST), np.log(1 / LEAST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        expected = (probabilities(decisions.logits, float(np.exp(-middle))) * decisions.logits).sum(axis=1).mean()
        low, high = (low, middle) if expected > gold else (middle, high)
    return Temperature(float(np.exp(-(low + high) / 2)), frozenset(decisions.keys))


def out_of_fold_probabilities(decisions: Decisions, temperature: Temperature | None) -> np.ndarray:
    """Calibrated probabilities with a temperature fitted on other rows: float64 [decisions, classes].

    Uses `temperature`, unless it was fitted on any of these rows: then each half uses the temperature of the other half
    (uncalibrated if there are no two different rows).
    """
    if temperature is None:
        return probabilities(decisions.logits)
    if temperature.seen.isdisjoint(decisions.keys):
        return probabilities(decisions.logits, temperature.value)
    return cross_probabilities(decisions)


def cross_probabilities(decisions: Decisions) -> np.ndarray:
    """Probabilities of each half of the rows with the temperature of the other half; duplicates are in one half."""
    result = probabilities(decisions.logits)
    halves = two_halves(decisions.keys, np.zeros(len(decisions), dtype=bool), generator(0, "calibration-halves"))
    for own, other in (halves, halves[::-1]) if all(map(len, halves)) else ():
        result[own] = probabilities(decisions.logits[own], fit_temperature(decisions.take(other)).value)
    return result


def calibration_errors(gold: np.ndarray, shares: np.ndarray) -> dict[str, float]:
    """ece and ece_equal_mass of probabilities [decisions, classes]."""
    return {"ece": scores.ece(gold, shares), "ece_equal_mass": scores.ece_equal_mass(gold, shares)}


# -- Selective prediction: risk-coverage curves and abstention (El-Yaniv & Wiener 2010; Geifman & El-Yaniv 2017) -----
#
# Predictions are accepted in order of confidence. Coverage is the fraction of accepted predictions, risk the fraction
# of those that are wrong. AURC, the mean risk over all coverages, measures how well confidence ranks errors last.


@dataclass(frozen=True)
class RiskCoverage:
    """A risk-coverage curve with one point per distinct confidence, in descending order.

    confidence, coverage, risk: float64 [levels]; aurc: mean risk over the rows; best_aurc: AURC of an ideal ranking
    with all wrong rows last.
    """

    confidence: np.ndarray
    coverage: np.ndarray
    risk: np.ndarray
    aurc: float
    best_aurc: float

    def at_risk(self, wanted: float) -> dict[str, float | None]:
        """{"risk", "coverage", "min_confidence"}: the largest coverage with at most this risk; min_confidence is None
        if none has it. Raises InputError for a risk outside [0, 1].
        """
        if not 0 <= wanted <= 1:
            raise InputError(f"A risk is a fraction of wrong predictions from 0 to 1, not {wanted:g}.")
        fits = np.flatnonzero(self.risk <= wanted + 1e-12)
        if not len(fits):
            return {"risk": wanted, "coverage": 0.0, "min_confidence": None}
        last = int(fits[-1])
        return {"risk": wanted, "coverage": float(self.coverage[last]), "min_confidence": float(self.confidence[last])}


def risk_coverage(confidence: ArrayLike, is_right: ArrayLike) -> RiskCoverage:
    """Computes the risk-coverage curve. confidence: float [rows]; is_right: bool [rows].

    Rows with the same confidence are accepted together; errors count as evenly spread among them. Raises InputError if
    there are no rows.
    """
    confidences, right = np.asarray(confidence, dtype=np.float64), np.asarray(is_right, dtype=np.float64)
    if confidences.ndim != 1 or confidences.shape != right.shape or not len(confidences):
        raise InputError("A risk-coverage curve needs one confidence and one outcome per row, and at least one row.")
    levels, place, counts = np.unique(-confidences, return_inverse=True, return_counts=True)
    wrong = np.bincount(place, weights=1 - right, minlength=len(levels))  # [levels]
    answered, errors = np.cumsum(counts), np.cumsum(wrong)
    each = np.cumsum((wrong / counts)[np.sort(place)])  # expected errors among the first n rows
    num = len(confidences)
    ranks = np.arange(1, num + 1)
    best = np.maximum(0.0, ranks - (num - wrong.sum()))
    return RiskCoverage(
        -levels, answered / num, errors / answered, float((each / ranks).mean()), float((best / ranks).mean())
    )


def abstain(answer: Mapping[str, Any], min_confidence: float) -> dict[str, Any]:
    """Adds "abstained" to a classifier prediction; if true, its label (or labels) is None.

    Confidence is the probability of the class; multi-label, the lowest confidence over all label decisions.
    """
    if "labels" in answer:
        confidence = min(max(share, 1 - share) for share in answer["probabilities"].values())
        abstains = confidence < min_confidence
        return {**answer, "labels": None if abstains else answer["labels"], "abstained": abstains}
    abstains = answer["score"] < min_confidence
    return {**answer, "label": None if abstains else answer["label"], "abstained": abstains}
