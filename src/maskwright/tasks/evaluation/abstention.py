"""Selective prediction: risk-coverage curves and abstention (El-Yaniv & Wiener 2010; Geifman & El-Yaniv 2017).

Predictions are accepted in order of confidence. Coverage is the fraction of accepted predictions, risk the fraction of
those that are wrong. AURC, the mean risk over all coverages, measures how well confidence ranks errors last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import InputError


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
        """{"risk", "coverage", "min_confidence"}: the largest coverage with at most this risk.

        min_confidence is None if no coverage reaches the risk. Raises InputError for a risk outside [0, 1].
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
