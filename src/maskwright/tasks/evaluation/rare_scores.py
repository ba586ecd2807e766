"""Bootstrap intervals of minority-class metrics and of paired differences between methods.

A bootstrap sample is a count per row (how often it was drawn). With the rows sorted once by value, precision and recall
at every cut of all samples are sums of counts. On the original rows the results equal those of `metrics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.randomness import generator
from .rare import PRECISION

METRICS = ("pr_auc", "f1", "recall_at_precision_90")
SAMPLES = 1000
CONFIDENCE = 0.95
_SAMPLES_AT_ONCE = 200


@dataclass(frozen=True)
class SeedPredictions:
    """Predictions of one method with one seed on the test rows.

    values: float64 [rows], higher for the rare class; given: bool [rows], its decisions.
    """

    values: np.ndarray
    given: np.ndarray


@dataclass(frozen=True)
class Interval:
    """mean: over seeds, on the original rows; low, high: 95% bootstrap percentile interval."""

    mean: float
    low: float
    high: float

    @property
    def is_beyond_noise(self) -> bool:
        """For a difference: whether the interval excludes zero."""
        return self.low > 0 or self.high < 0

    def to_json(self) -> dict[str, Any]:
        """{"mean", "low", "high"}."""
        return {"mean": self.mean, "low": self.low, "high": self.high}


def draw_counts(num_rows: int, num_seeds: int, samples: int = SAMPLES, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Bootstrap samples of rows and seeds as counts: int16 [samples, rows], int16 [samples, seeds].

    Use the same samples for all methods, so that differences are paired. A sample depends only on its number.
    """
    rows = np.zeros((samples, num_rows), dtype=np.int16)
    seeds = np.zeros((samples, num_seeds), dtype=np.int16)
    for number in range(samples):
        rng = generator(seed, "rare-bootstrap", number)
        rows[number] = np.bincount(rng.integers(num_rows, size=num_rows), minlength=num_rows)
        seeds[number] = np.bincount(rng.integers(num_seeds, size=num_seeds), minlength=num_seeds)
    return rows, seeds


def sample_scores(gold: np.ndarray, predictions: SeedPredictions, counts: np.ndarray) -> np.ndarray:
    """METRICS of each sample: float64 [samples, 3].

    gold: bool [rows]; counts: int [samples, rows]. A sample without a row of the class scores 0, as in `metrics`.
    """
    parts = [
        _some_scores(gold, predictions, counts[start : start + _SAMPLES_AT_ONCE].astype(np.float64))
        for start in range(0, len(counts), _SAMPLES_AT_ONCE)
    ]
    return np.concatenate(parts)


def _precision_recall(
    gold: np.ndarray, predictions: SeedPredictions, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Precision and recall of each sample at every cut, from the highest value: float64 [samples, cuts] each."""
    order = np.argsort(-predictions.values, kind="stable")
    ordered = predictions.values[order]
    ends = np.flatnonzero(np.concatenate([ordered[1:] != ordered[:-1], [True]]))  # equal values stay together
    drawn = counts[:, order]
    right = np.cumsum(drawn * gold[order], axis=1)[:, ends]  # [samples, cuts]
    given = np.cumsum(drawn, axis=1)[:, ends]
    total = right[:, -1:]
    precision = np.divide(right, given, out=np.zeros_like(right), where=given > 0)
    return precision, np.divide(right, total, out=np.zeros_like(right), where=total > 0)


def _some_scores(gold: np.ndarray, predictions: SeedPredictions, counts: np.ndarray) -> np.ndarray:
    precision, recall = _precision_recall(gold, predictions, counts)
    gains = np.diff(recall, axis=1, prepend=0.0)
    pr_auc = (gains * precision).sum(axis=1)
    at_precision = np.where(precision >= PRECISION, recall, 0.0).max(axis=1)
    hits = counts @ (gold & predictions.given).astype(np.float64)  # [samples]
    called = counts @ (gold.astype(np.float64) + predictions.given)
    f1 = np.divide(2 * hits, called, out=np.zeros_like(hits), where=called > 0)
    return np.stack([pr_auc, f1, at_precision], axis=1)


@dataclass(frozen=True)
class MethodScores:
    """METRICS of one method. observed: float64 [seeds, 3]; sampled: float64 [samples, 3], mean over drawn seeds."""

    observed: np.ndarray
    sampled: np.ndarray

    def interval(self, metric: str) -> Interval:
        """Mean over seeds and its interval."""
        column = METRICS.index(metric)
        return _interval(float(self.observed[:, column].mean()), self.sampled[:, column])

    def minus(self, other: MethodScores, metric: str) -> Interval:
        """This method minus `other` on the same samples: the paired difference."""
        column = METRICS.index(metric)
        observed = float((self.observed[:, column] - other.observed[:, column]).mean())
        return _interval(observed, self.sampled[:, column] - other.sampled[:, column])


def method_scores(
    gold: np.ndarray, by_seed: Sequence[SeedPredictions], row_counts: np.ndarray, seed_counts: np.ndarray
) -> MethodScores:
    """Scores of one method over its seeds.

    gold: bool [rows], the same test rows for all seeds; row_counts, seed_counts: of `draw_counts`. Raises InputError
    if a seed has predictions for another number of rows.
    """
    if any(len(predictions.values) != len(gold) or len(predictions.given) != len(gold) for predictions in by_seed):
        raise InputError("Methods are compared on the same test rows, but their predictions differ in number.")
    as_they_are = np.ones((1, len(gold)))
    observed = np.concatenate([sample_scores(gold, predictions, as_they_are) for predictions in by_seed])
    # [samples, seeds, 3]
    sampled = np.stack([sample_scores(gold, predictions, row_counts) for predictions in by_seed], axis=1)
    weights = seed_counts / seed_counts.sum(axis=1, keepdims=True)
    return MethodScores(observed, (sampled * weights[:, :, None]).sum(axis=1))


@dataclass(frozen=True)
class Curve:
    """Interpolated precision-recall curve: the highest precision at each recall or beyond, mean over seeds.

    recall, precision: float64 [points]; low, high: 95% bootstrap percentile interval of the precision.
    """

    recall: np.ndarray
    precision: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def to_json(self) -> dict[str, list[float]]:
        """The arrays as lists."""
        return {name: values.tolist() for name, values in vars(self).items()}


def mean_curve(
    gold: np.ndarray,
    by_seed: Sequence[SeedPredictions],
    row_counts: np.ndarray,
    seed_counts: np.ndarray,
    points: int = 61,
) -> Curve:
    """The curve of one method over its seeds. Arguments: see `method_scores`."""
    grid = np.linspace(0, 1, points)
    as_they_are = np.ones((1, len(gold)))
    observed = np.mean([_heights(gold, predictions, as_they_are, grid)[0] for predictions in by_seed], axis=0)
    sampled = np.stack([_heights(gold, predictions, row_counts, grid) for predictions in by_seed], axis=1)
    weights = seed_counts / seed_counts.sum(axis=1, keepdims=True)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile((sampled * weights[:, :, None]).sum(axis=1), [tail, 1 - tail], axis=0)
    return Curve(grid, observed, low, high)


def _heights(gold: np.ndarray, predictions: SeedPredictions, counts: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The highest precision of each sample at each recall of `grid` or beyond: float64 [samples, points]."""
    found = np.zeros((len(counts), len(grid)))
    for start in range(0, len(counts), _SAMPLES_AT_ONCE):
        some = counts[start : start + _SAMPLES_AT_ONCE].astype(np.float64)
        precision, recall = _precision_recall(gold, predictions, some)
        best = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        for number, (own, heights) in enumerate(zip(recall, best, strict=True), start=start):
            cuts = np.searchsorted(own, grid - 1e-12, side="left")
            found[number] = np.where(cuts < len(own), heights[np.minimum(cuts, len(own) - 1)], 0.0)
    return found


def _interval(mean: float, drawn: np.ndarray) -> Interval:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(mean, float(low), float(high))
