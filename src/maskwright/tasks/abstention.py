"""Answering only when sure: what risk is left at which coverage (El-Yaniv & Wiener 2010; Geifman & El-Yaniv 2017).

Rows are answered in the order of confidence. Coverage is the share that is answered, risk the share of those that is
wrong. The mean risk over all coverages, AURC, is one number for how well confidence tells right from wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError


@dataclass(frozen=True)
class RiskCoverage:
    """One point for each confidence that occurs, from the surest down.

    confidence, coverage, risk: float64 [levels]; aurc: mean risk over the rows; best_aurc: what an order with every
    wrong row last would have.
    """

    confidence: np.ndarray
    coverage: np.ndarray
    risk: np.ndarray
    aurc: float
    best_aurc: float

    def at_risk(self, wanted: float) -> dict[str, float | None]:
        """{"risk", "coverage", "min_confidence"}: the most rows that can be answered with at most this share wrong.

        min_confidence is None where not even the surest rows are so good. Raises InputError for a risk outside 0 to 1.
        """
        if not 0 <= wanted <= 1:
            raise InputError(f"A risk is a share of wrong answers between 0 and 1, not {wanted:g}.")
        fits = np.flatnonzero(self.risk <= wanted + 1e-12)
        if not len(fits):
            return {"risk": wanted, "coverage": 0.0, "min_confidence": None}
        last = int(fits[-1])
        return {"risk": wanted, "coverage": float(self.coverage[last]), "min_confidence": float(self.confidence[last])}


def risk_coverage(confidence: ArrayLike, is_right: ArrayLike) -> RiskCoverage:
    """The curve of rows with these confidences [rows], answered right or not: bool [rows].

    Rows of one confidence are answered together, or not; within, the wrong ones count as evenly spread. Raises
    InputError without rows.
    """
    sure, right = np.asarray(confidence, dtype=np.float64), np.asarray(is_right, dtype=np.float64)
    if sure.ndim != 1 or sure.shape != right.shape or not len(sure):
        raise InputError("A risk-coverage curve needs one confidence and one outcome for each row, and a row at least.")
    levels, place, counts = np.unique(-sure, return_inverse=True, return_counts=True)
    wrong = np.bincount(place, weights=1 - right, minlength=len(levels))  # [levels]
    answered, errors = np.cumsum(counts), np.cumsum(wrong)
    each = np.cumsum((wrong / counts)[np.sort(place)])  # expected errors among the first n rows
    num = len(sure)
    ranks = np.arange(1, num + 1)
    best = np.maximum(0.0, ranks - (num - wrong.sum()))
    return RiskCoverage(
        -levels, answered / num, errors / answered, float((each / ranks).mean()), float((best / ranks).mean())
    )


def abstain(answer: Mapping[str, Any], min_confidence: float) -> dict[str, Any]:
    """The answer of a classifier with "abstained": where that is true, its label (or labels) is None.

    Confidence is the probability of the class; of several labels, that of the least sure decision, there or not.
    """
    if "labels" in answer:
        sure = min(max(share, 1 - share) for share in answer["probabilities"].values())
        is_unsure = sure < min_confidence
        return {**answer, "labels": None if is_unsure else answer["labels"], "abstained": is_unsure}
    is_unsure = answer["score"] < min_confidence
    return {**answer, "label": None if is_unsure else answer["label"], "abstained": is_unsure}
