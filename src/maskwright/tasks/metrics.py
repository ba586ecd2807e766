"""Scores of predictions against the gold answers, as fractions, computed by scikit-learn and scipy.

Every metric is a plain float for every input, so that it can be logged, compared and written as JSON. Where
the textbook formula divides by zero the value is 0.0: nothing was shown to be right. That concerns `f1` and
`macro_f1` without a true positive, `matthews` when the gold labels or the predictions are all one class, and
`pearson` and `spearman` when either side is constant or has fewer than two rows; `pr_auc` and `recall_at_precision`
without a positive row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

ECE_BINS = 15


def accuracy(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Share of rows that are right. gold, predicted: int [rows], or bool [rows, labels]: all must agree."""
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(gold, predicted))


def f1(gold: ArrayLike, predicted: ArrayLike) -> float:
    """F1 of the positive class, number 1, of two. gold, predicted: int [rows]."""
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted, pos_label=1, average="binary", zero_division=0))


def micro_f1(gold: ArrayLike, predicted: ArrayLike) -> float:
    """F1 over all (row, label) decisions together. gold, predicted: bool [rows, labels]."""
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted, average="micro", zero_division=0))


def macro_f1(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Mean of the F1 of each class, every class counting the same.

    gold, predicted: int [rows], averaged over the classes that occur on either side; or bool [rows, labels],
    averaged over all labels.
    """
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted, average="macro", zero_division=0))


def matthews(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Matthews correlation, -1 to 1; Gorodkin's R_K beyond two classes. gold, predicted: int [rows]."""
    from sklearn.metrics import matthews_corrcoef

    if np.ptp(np.asarray(gold)) == 0 or np.ptp(np.asarray(predicted)) == 0:
        return 0.0
    return float(matthews_corrcoef(gold, predicted))


def pr_auc(gold: ArrayLike, scores: ArrayLike) -> float:
    """Area under the curve of precision over recall, as average precision: the sum of precision * gain in recall.

    gold: bool [rows], whether the row is of the class in question; scores: float [rows], higher for the class.
    """
    from sklearn.metrics import average_precision_score

    is_positive = np.asarray(gold, dtype=bool)
    return float(average_precision_score(is_positive, scores)) if is_positive.any() else 0.0


def recall_at_precision(gold: ArrayLike, scores: ArrayLike, precision: float) -> float:
    """The largest recall of all cuts whose precision is at least `precision`; 0.0 where there is none.

    gold, scores: as `pr_auc` takes them.
    """
    from sklearn.metrics import precision_recall_curve

    is_positive = np.asarray(gold, dtype=bool)
    if not is_positive.any():
        return 0.0
    precisions, recalls, _ = precision_recall_curve(is_positive, scores)
    return float(recalls[precisions >= precision].max())


def pearson(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Linear correlation, -1 to 1. gold, predicted: float [rows]."""
    from scipy.stats import pearsonr

    return _correlation(pearsonr, gold, predicted)


def spearman(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Correlation of the ranks, ties sharing their mean rank, -1 to 1. gold, predicted: float [rows]."""
    from scipy.stats import spearmanr

    return _correlation(spearmanr, gold, predicted)


def mse(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Mean of the squared errors, in squared units of the target. gold, predicted: float [rows]."""
    from sklearn.metrics import mean_squared_error

    return float(mean_squared_error(gold, predicted))


def ece(gold: ArrayLike, probabilities: ArrayLike, bins: int = ECE_BINS) -> float:
    """Expected calibration error (Guo et al. 2017, equation 3): how far confidence and accuracy lie apart.

    gold: int [rows]; probabilities: float [rows, labels]. Rows are sorted into `bins` equal intervals by the
    probability of the predicted class; the result is the mean of |accuracy - mean confidence| over bins,
    weighted by their rows.
    """
    scores = np.asarray(probabilities, dtype=np.float64)
    confidence = scores.max(axis=1)
    is_right = scores.argmax(axis=1) == np.asarray(gold)
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    gap = np.bincount(place, weights=is_right - confidence, minlength=bins)
    return float(np.abs(gap).sum() / len(confidence))


def ece_equal_mass(gold: ArrayLike, probabilities: ArrayLike, bins: int = ECE_BINS) -> float:
    """The same with bins of equally many rows (Nguyen & O'Connor 2015), so that no bin rests on a few of them.

    Rows of one confidence share their accuracy: their order decides nothing.
    """
    scores = np.asarray(probabilities, dtype=np.float64)
    confidence = scores.max(axis=1)
    is_right = (scores.argmax(axis=1) == np.asarray(gold)).astype(np.float64)
    levels, place, counts = np.unique(confidence, return_inverse=True, return_counts=True)
    mean_right = np.bincount(place, weights=is_right, minlength=len(levels)) / counts
    order = np.argsort(confidence, kind="stable")
    gaps = (mean_right[place] - confidence)[order]
    return float(sum(abs(part.sum()) for part in np.array_split(gaps, bins)) / len(confidence))


def _correlation(statistic: Callable[..., Any], gold: ArrayLike, predicted: ArrayLike) -> float:
    x, y = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if len(x) < 2 or _is_constant(x) or _is_constant(y):
        return 0.0
    return float(statistic(x, y).statistic)


def _is_constant(values: np.ndarray) -> bool:
    """Whether the values differ by no more than rounding."""
    return bool(np.ptp(values) <= 1e-12 * np.abs(values).max())
