"""Metrics of predictions against gold labels, as fractions, computed by scikit-learn and scipy.

Every metric returns a plain float for every input. Where the formula divides by zero the value is 0.0: `f1` and
`macro_f1` without a true positive, `matthews` if the gold labels or the predictions are all one class, `pearson` and
`spearman` if either side is constant or has fewer than two rows, `pr_auc` and `recall_at_precision` without a positive
row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ...core import registry
from ...core.errors import InputError

ECE_BINS = 15
Metric = TypeVar("Metric", bound=Callable[..., float])


def measure(names: Iterable[str], gold: ArrayLike, predicted: ArrayLike) -> dict[str, float]:
    """Returns registered metrics, by name. gold, predicted: [rows], or [rows, labels], as each metric takes them."""
    return {name: registry.resolve("metric", name)(gold, predicted) for name in names}


def of_classes(metric: Metric) -> Metric:
    """Marks a registered metric as one of classes, int [rows], so that `--metric` accepts it for them; a decorator."""
    metric.takes_classes = True  # type: ignore[attr-defined]  # read by `class_metrics`
    return metric


def class_metrics() -> tuple[str, ...]:
    """Returns the names of the registered metrics of classes."""
    names = registry.names("metric")
    return tuple(name for name in names if getattr(registry.resolve("metric", name), "takes_classes", False))


@of_classes
def accuracy(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Fraction of correct rows. gold, predicted: int [rows], or bool [rows, labels], where all labels must match."""
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(gold, predicted))


def f1(gold: ArrayLike, predicted: ArrayLike) -> float:
    """F1 of the positive class, 1, of two classes. gold, predicted: int [rows]."""
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted, pos_label=1, average="binary", zero_division=0))


def micro_f1(gold: ArrayLike, predicted: ArrayLike) -> float:
    """F1 over all (row, label) decisions. gold, predicted: bool [rows, labels]."""
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted, average="micro", zero_division=0))


@of_classes
def macro_f1(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Unweighted mean of the F1 of each class.

    gold, predicted: int [rows], averaged over the classes that occur on either side; or bool [rows, labels],
    averaged over all labels.
    """
    from sklearn.metrics import f1_score

    return float(f1_score(gold, predicted, average="macro", zero_division=0))


@of_classes
def matthews(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Matthews correlation, -1 to 1; Gorodkin's R_K beyond two classes. gold, predicted: int [rows]."""
    from sklearn.metrics import matthews_corrcoef

    if np.ptp(np.asarray(gold)) == 0 or np.ptp(np.asarray(predicted)) == 0:
        return 0.0
    return float(matthews_corrcoef(gold, predicted))


def pr_auc(gold: ArrayLike, scores: ArrayLike) -> float:
    """Area under the precision-recall curve, as average precision: the sum of precision * gain in recall.

    gold: bool [rows], whether the row is of the positive class; scores: float [rows], higher for that class.
    """
    from sklearn.metrics import average_precision_score

    is_positive = np.asarray(gold, dtype=bool)
    return float(average_precision_score(is_positive, scores)) if is_positive.any() else 0.0


def recall_at_precision(gold: ArrayLike, scores: ArrayLike, precision: float) -> float:
    """The largest recall over all thresholds with at least this precision; 0.0 if there is none.

    gold, scores: see `pr_auc`.
    """
    from sklearn.metrics import precision_recall_curve

    is_positive = np.asarray(gold, dtype=bool)
    if not is_positive.any():
        return 0.0
    precisions, recalls, _ = precision_recall_curve(is_positive, scores)
    return float(recalls[precisions >= precision].max())


def pearson(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Pearson correlation, -1 to 1. gold, predicted: float [rows]."""
    from scipy.stats import pearsonr

    return _correlation(pearsonr, gold, predicted)


def spearman(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Spearman rank correlation, -1 to 1; ties share their mean rank. gold, predicted: float [rows]."""
    from scipy.stats import spearmanr

    return _correlation(spearmanr, gold, predicted)


def mse(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Mean squared error, in squared units of the target. gold, predicted: float [rows]."""
    from sklearn.metrics import mean_squared_error

    return float(mean_squared_error(gold, predicted))


def ece(gold: ArrayLike, probabilities: ArrayLike) -> float:
    """Expected calibration error (Guo et al. 2017, equation 3).

    gold: int [rows]; probabilities: float [rows, labels]. Rows are binned into ECE_BINS equal intervals by confidence;
    the result is the mean of |accuracy - mean confidence| over bins, weighted by rows.
    """
    scores = np.asarray(probabilities, dtype=np.float64)
    confidence = scores.max(axis=1)
    is_right = scores.argmax(axis=1) == np.asarray(gold)
    place = np.minimum((confidence * ECE_BINS).astype(int), ECE_BINS - 1)
    gap = np.bincount(place, weights=is_right - confidence, minlength=ECE_BINS)
    return float(np.abs(gap).sum() / len(confidence))


def ece_equal_mass(gold: ArrayLike, probabilities: ArrayLike, bins: int = ECE_BINS) -> float:
    """As `ece`, with bins of equally many rows (Nguyen & O'Connor 2015), so that no bin has only a few.

    Rows with equal confidence share their mean accuracy, so that the result does not depend on their order.
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
    # A side is constant if its values differ by no more than rounding errors.
    if len(x) < 2 or any(np.ptp(side) <= 1e-12 * np.abs(side).max() for side in (x, y)):
        return 0.0
    return float(statistic(x, y).statistic)


# -- Ensembles ------------------------------------------------------------------------------------------------------


def mean_scores(members: Sequence[ArrayLike]) -> np.ndarray:
    """Mean over models: float64, with the shape of each member.

    members: arrays of the same shape, [rows] or [rows, labels], in the same row order. Raises InputError if there are
    none, shapes differ, or values are not finite.
    """
    if len(members) == 0:
        raise InputError("An ensemble needs at least one model's predictions.")
    arrays = [np.asarray(member, dtype=np.float64) for member in members]
    for place, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise InputError(
                f"The predictions of model {place} have the shape {array.shape} and those of model 0 "
                f"{arrays[0].shape}: all models must predict the same rows with the same labels."
            )
        if not np.isfinite(array).all():
            raise InputError(f"The predictions of model {place} contain a number that is not finite.")
    return np.stack(arrays).mean(axis=0)


def mean_probabilities(members: Sequence[ArrayLike], *, multi_label: bool = False) -> np.ndarray:
    """Mean of probabilities: float64 [rows, labels].

    members: arrays [rows, labels] of probabilities, not logits; rows sum to 1 unless multi_label. Raises InputError
    like `mean_scores`.
    """
    mean = mean_scores(members)
    return mean if multi_label else mean / mean.sum(axis=1, keepdims=True)
