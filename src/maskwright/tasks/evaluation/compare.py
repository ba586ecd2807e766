"""Compares the main metric of two models on the same rows, with paired tests of significance.

The bootstrap (Efron 1979; Berg-Kirkpatrick et al. 2012 for NLP) supports every metric and gives an interval; so does
the permutation test (Noreen 1989); McNemar's exact test (1947) compares right and wrong predictions. Each task
decomposes its main metric into contributions per row (`Task.rate`), so that the metric of any resample of rows is
computed without running the models again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import InputError
from ...core.randomness import generator
from . import metrics

RESAMPLES = 10_000
SAMPLES = 2000  # for metrics that are not a mean over rows
CONFIDENCE = 0.95
_INDICES_AT_ONCE = 1 << 20  # per block of samples, to limit memory

Metric = Callable[[np.ndarray], float]  # of parts


# -- the metric of any rows --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoredPredictions:
    """Scored predictions of a model.

    metric: name of the metric; parts: float64 [rows, parts], contribution of each row; of: parts of any rows -> metric;
    is_right: bool [rows], None if predictions are not simply right or wrong.
    """

    metric: str
    parts: np.ndarray
    of: Metric
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


# -- the tests ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """Difference of a metric, first minus second, on the original rows; low, high: percentile interval at `confidence`;
    p_value: two-sided, probability of a difference at least as large under the null hypothesis.
    """

    difference: float
    low: float
    high: float
    p_value: float
    confidence: float
    num_rows: int
    num_samples: int

    @property
    def is_significant(self) -> bool:
        return self.p_value < 1 - self.confidence


@dataclass(frozen=True)
class McNemar:
    """only_first, only_second: rows that only one model predicts correctly; p_value: exact, two-sided."""

    only_first: int
    only_second: int
    p_value: float


def bootstrap_scores(
    first: ArrayLike, second: ArrayLike, *, samples: int = RESAMPLES, confidence: float = CONFIDENCE, seed: int = 0
) -> Difference:
    """Compares two models by a score per row whose mean is the metric, such as 1 for correct, answer F1, or -error.

    first, second: float [rows], the same rows in the same order. Raises InputError if they do not match.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if any(values.ndim != 1 or not np.isfinite(values).all() for values in (a, b)):
        raise InputError("Scores to compare must be one finite number for each row.")
    _check(len(a), len(b), samples, confidence)
    gaps = a - b  # [rows]
    drawn = [gaps[block].mean(axis=1) for block in _resamples(len(gaps), samples, seed)]
    return _difference(float(gaps.mean()), np.concatenate(drawn), confidence, len(gaps))


def bootstrap_metric(
    metric: Metric, first: np.ndarray, second: np.ndarray, *, samples: int = SAMPLES, seed: int = 0
) -> Difference:
    """Compares two models by a metric that is no mean over rows. first, second: parts of the same rows, [rows, parts].

    The metric is called twice per sample. Raises InputError if the rows do not match.
    """
    _check(len(first), len(second), samples)
    drawn = [
        metric(first[rows]) - metric(second[rows]) for block in _resamples(len(first), samples, seed) for rows in block
    ]
    return _difference(metric(first) - metric(second), np.asarray(drawn), CONFIDENCE, len(first))


def permutation_test(
    metric: Metric, first: np.ndarray, second: np.ndarray, *, samples: int = SAMPLES, seed: int = 0
) -> float:
    """Two-sided p-value of a paired permutation test: each sample swaps the predictions of each row with probability
    0.5. Arguments: see `bootstrap_metric`.
    """
    observed = metric(first) - metric(second)
    least, num_extreme = abs(observed) - _slack(observed), 0
    for number in range(samples):
        swapped = generator(seed, "permutation", number).random(len(first))[:, None] < 0.5
        one, other = np.where(swapped, second, first), np.where(swapped, first, second)
        num_extreme += abs(metric(one) - metric(other)) >= least
    return (num_extreme + 1) / (samples + 1)


def mcnemar(first: np.ndarray, second: np.ndarray) -> McNemar:
    """McNemar's exact test: a binomial test on the rows that only one model predicts correctly.

    first, second: bool [rows], whether each row is right. The p-value is 1 if there are no such rows.
    """
    from scipy.stats import binomtest

    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    discordant = only_first + only_second
    p_value = float(binomtest(only_first, discordant, 0.5).pvalue) if discordant else 1.0
    return McNemar(only_first, only_second, p_value)


def _check(num_rows: int, other: int, samples: int, confidence: float = CONFIDENCE) -> None:
    if num_rows != other:
        raise InputError(
            f"Two models are compared on the same rows, but the numbers of rows differ: {num_rows:,}, {other:,}."
        )
    if num_rows == 0:
        raise InputError("There are no rows to compare two models on.")
    if samples < 1:
        raise InputError(f"At least one bootstrap sample is needed, not {samples}.")
    if not 0 < confidence < 1:
        raise InputError(f"The confidence must lie between 0 and 1, not {confidence:g}.")


def _resamples(num_rows: int, samples: int, seed: int) -> Iterator[np.ndarray]:
    """Row numbers drawn with replacement, in blocks int64 [samples, rows]. A sample depends only on its number."""
    at_once = max(1, _INDICES_AT_ONCE // num_rows)
    for start in range(0, samples, at_once):
        numbers = range(start, min(start + at_once, samples))
        yield np.stack([generator(seed, "bootstrap", number).integers(num_rows, size=num_rows) for number in numbers])


def _slack(observed: float) -> float:
    """Rounding errors of sums in another order."""
    return 1e-12 * (1 + abs(observed))


def _difference(observed: float, drawn: np.ndarray, confidence: float, num_rows: int) -> Difference:
    """Interval and p-value from the differences of the samples, float [samples].

    Under the null hypothesis the samples are distributed around 0 as they are around the observed difference, so p is
    the fraction of samples at least as far from `observed` as it is from 0; the observed rows count as one sample.
    """
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    num_extreme = int((np.abs(drawn - observed) >= abs(observed) - _slack(observed)).sum())
    p_value = (num_extreme + 1) / (len(drawn) + 1)
    return Difference(observed, float(low), float(high), p_value, confidence, num_rows, len(drawn))


# -- the conclusion ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compared:
    """The main metric of both models, the difference with its interval, and the p-values of the tests."""

    metric: str
    first: float
    second: float
    difference: Difference
    permutation_p: float
    mcnemar: McNemar | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"is_significant": self.is_significant, "sentence": self.sentence("A", "B")}

    @property
    def is_significant(self) -> bool:
        return self.difference.is_significant and self.permutation_p < 1 - self.difference.confidence

    def sentence(self, first: str, second: str) -> str:
        found, name = self.difference, self.metric.replace("_", " ")
        if found.difference == 0:
            return f"{first} and {second} have the same {name} on these {found.num_rows:,} rows."
        better, worse = (first, second) if found.difference > 0 else (second, first)
        if self.is_significant:
            low, high = sorted((abs(found.low), abs(found.high)))
            return (
                f"{better} is better: its {name} is {abs(found.difference):.4f} higher; {found.confidence:.0%} "
                f"bootstrap interval {low:.4f} to {high:.4f}."
            )
        p_value = max(found.p_value, self.permutation_p)
        return (
            f"The difference is not significant on these {found.num_rows:,} rows: {better} is "
            f"{abs(found.difference):.4f} ahead of {worse} in {name} (p = {p_value:.3f})."
        )


def compare(first: ScoredPredictions, second: ScoredPredictions, *, seed: int = 0) -> Compared:
    """Runs a paired bootstrap, a permutation test, and McNemar's test if predictions are right or wrong.

    Raises InputError for different rows or metrics.
    """
    if first.metric != second.metric:
        raise InputError(f"One model is scored by {first.metric} and the other by {second.metric}: their tasks differ.")

    samples = {"samples": SAMPLES, "seed": seed}
    if first.of is mean:
        found = bootstrap_scores(first.parts[:, 0], second.parts[:, 0], seed=seed)
    else:
        found = bootstrap_metric(first.of, first.parts, second.parts, **samples)
    tosses = None
    if first.is_right is not None and second.is_right is not None:
        tosses = mcnemar(first.is_right, second.is_right)
    p_value = permutation_test(first.of, first.parts, second.parts, **samples)
    return Compared(first.metric, first.of(first.parts), second.of(second.parts), found, p_value, tosses)
