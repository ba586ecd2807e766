"""Scored predictions: the contribution of each row to a metric, for the tests of significance in `compare`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from . import metrics


@dataclass(frozen=True)
class ScoredPredictions:
    """Scored predictions of a model.

    metric: name of the metric; parts: float64 [rows, parts], contribution of each row; of: parts of any rows -> metric;
    is_right: bool [rows], None if predictions are not simply right or wrong.
    """

    metric: str
    parts: np.ndarray
    of: Callable[[np.ndarray], float]
    is_right: np.ndarray | None = None


def mean(parts: np.ndarray) -> float:
    """Mean of [rows, 1]."""
    return float(parts[:, 0].mean())


def pr_auc(parts: np.ndarray) -> float:
    """PR AUC of [rows, 2]: whether a row is of the class, and its score."""
    return metrics.pr_auc(parts[:, 0] > 0, parts[:, 1])


def share(parts: np.ndarray) -> float:
    """Fraction of counts [rows, 2]: correct, total."""
    right, total = parts.sum(axis=0)
    return float(right / total) if total else 0.0


def f1(parts: np.ndarray) -> float:
    """F1 of counts [rows, 3]: gold, predicted, correct."""
    gold, found, both = parts.sum(axis=0)
    return float(2 * both / (gold + found)) if gold + found else 0.0
