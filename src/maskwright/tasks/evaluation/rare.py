"""Rare classes: decision thresholds, scores with intervals, and samples of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from ...core.errors import InputError, ModelFolderError, RowError, RowErrors
from ...core.progress import warn
from ...core.randomness import generator
from ...core.registry import unknown_name
from ...text.readers.tables import Row
from . import metrics as scores

# -- Decision thresholds that record the rows that they were tuned on ------------------------------------------------
#
# Scores on the rows that a threshold was tuned on are too optimistic. So a `Threshold` stores the keys of its rows, for
# scoring code to check; `two_halves` splits rows so that each half can be scored with the threshold of the other.


@dataclass(frozen=True)
class Threshold:
    """A decision threshold: scores above `value` are positive; seen: keys of the rows that it was tuned on."""

    value: float = 0.0
    seen: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """Serializes it with its row keys, so that a saved threshold is not evaluated on its own rows either."""
        return {"value": self.value, "tuned_on": sorted(self.seen)}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Threshold:
        """Builds it from the result of `to_json`. Raises ModelFolderError for invalid values."""
        value, seen = facts.get("value"), facts.get("tuned_on", [])
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and np.isfinite(value)
        if not is_number or not isinstance(seen, list) or not all(isinstance(key, str) for key in seen):
            raise ModelFolderError("maskwright.json contains an invalid threshold: save the model again.")
        return cls(float(value), frozenset(seen))  # type: ignore[arg-type]  # is_number


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


# -- Metrics and decision threshold of a rare (positive) class against all others ------------------------------------
#
# With 5% positive rows, a model that never predicts the class has a high accuracy. Informative metrics are the ranking
# (`pr_auc`), the recall at a precision of 0.9 (`recall_at_precision_90`), and the `f1` of the decisions, whose
# threshold is tuned on some rows and evaluated on others.


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

    @property
    def cut(self) -> float | None:
        """The probability above which the class is predicted; None if not tuned."""
        return None if self.threshold is None else self.threshold.value

    def tuned(self, probabilities: np.ndarray, gold: np.ndarray, keys: Sequence[str]) -> RareClass:
        """Returns the class with a threshold tuned on these rows.

        probabilities: float [rows], of the class; gold: bool [rows]; keys: row keys. Warns if no threshold reaches the
        required precision.
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
        """Out-of-fold threshold for scoring each row: float64 [rows].

        The threshold of the model if it was tuned on other rows; otherwise each half of the rows has the threshold
        tuned on the other half.
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
        """Serializes it for maskwright.json."""
        threshold = None if self.threshold is None else self.threshold.to_json()
        return {"label": self.label, "tunes": self.tunes, "precision": self.precision, "threshold": threshold}

    @classmethod
    def from_json(cls, facts: Any) -> RareClass:
        """Builds it from the result of `to_json`. Raises ModelFolderError for invalid values."""
        if not isinstance(facts, Mapping) or not isinstance(facts.get("label"), str):
            raise ModelFolderError("The model's maskwright.json has a 'rare' class without a label.")
        tunes, precision, threshold = (facts.get(name) for name in ("tunes", "precision", "threshold"))
        is_precision = precision is None or (isinstance(precision, float) and 0 < precision <= 1)
        if not isinstance(tunes, bool) or not is_precision or not isinstance(threshold, Mapping | None):
            raise ModelFolderError("The model's maskwright.json has an invalid 'rare' class.")
        return cls(facts["label"], tunes, precision, None if threshold is None else Threshold.from_json(threshold))


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
        values = [at_temperature(one.value, value) for one, value in zip(known, temperatures, strict=True)]
        mean = sum(values) / len(values)
        return replace(first, threshold=Threshold(mean, frozenset().union(*(one.seen for one in known))))
    warn("The models have no comparable thresholds for the same class: the ensemble predicts the most probable class.")
    return None if first is None else RareClass(first.label)


def at_temperature(probability: float, temperature: float) -> float:
    """Rescales a binary probability to a temperature; values outside (0, 1) are unchanged."""
    if temperature == 1.0 or not 0 < probability < 1:
        return probability
    return 1 / (1 + math.exp(-math.log(probability / (1 - probability)) / temperature))


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


# -- Samples train, dev and test splits with a minority class at a given rate ----------------------------------------


REST, RARE = "rest", "rare"
TEST_SHARE = DEV_SHARE = 0.2
LEAST = 2  # minimum rows of the class per split


@dataclass(frozen=True)
class Parts:
    """Rows relabeled as RARE or REST. test_classes: original labels of the test rows."""

    train: list[Row]
    dev: list[Row]
    test: list[Row]
    test_classes: list[str]


class MinorityClassSampler:
    """Samples distinct rows, with the rare class or the rest downsampled to the rate.

    The test rows are sampled once with `seed`; `parts` samples the other splits with their own seed.
    """

    def __init__(
        self, rows: Sequence[Row], rare_class: str, rate: float, *, max_train_rows: int | None = None, seed: int = 0
    ) -> None:
        """Raises InputError if the class or other classes are missing, or the rate leaves too few rows of the class."""
        distinct = list({row_key(row.text, row.text_pair): row for row in reversed(rows)}.values())[::-1]
        self.num_repeated = len(rows) - len(distinct)
        rare, rest = _two_kinds(distinct, rare_class)
        num_rare = min(len(rare), round(len(rest) * rate / (1 - rate)))
        num_rest = min(len(rest), round(len(rare) * (1 - rate) / rate))
        chosen = [_shuffled(kind, seed, f"rare pool {name}") for kind, name in ((rare, RARE), (rest, REST))]
        self.sizes = _sizes(num_rare, num_rest, rate, max_train_rows)
        if min(rare_rows for rare_rows, _ in self.sizes) < LEAST:
            raise InputError(
                f"At a rate of {rate:g} the class '{rare_class}' ({len(rare):,} rows and {len(rest):,} others) has "
                f"{', '.join(str(rare_rows) for rare_rows, _ in self.sizes)} rows in train, dev and test, too few to "
                f"train and score: raise the rate or --max-train-rows, or pass more rows."
            )
        pools = [kind[:count] for kind, count in zip(chosen, (num_rare, num_rest), strict=True)]
        counts = self.sizes[2]
        self._test = [pool[:count] for pool, count in zip(pools, counts, strict=True)]
        self._others = [pool[count:] for pool, count in zip(pools, counts, strict=True)]

    def parts(self, seed: int) -> Parts:
        """The splits for a seed; the test rows are the same for all seeds."""
        drawn = [_shuffled(pool, seed, f"rare parts {place}") for place, pool in enumerate(self._others)]
        (train_rare, train_rest), (dev_rare, dev_rest), _ = self.sizes
        train = _named(drawn[0][:train_rare], drawn[1][:train_rest])
        dev = _named(drawn[0][train_rare : train_rare + dev_rare], drawn[1][train_rest : train_rest + dev_rest])
        return Parts(train, dev, _named(*self._test), [str(row.label) for kind in self._test for row in kind])


def _two_kinds(rows: Sequence[Row], rare_class: str) -> tuple[list[Row], list[Row]]:
    missing = [RowError(row.file, row.line, "label", "is missing") for row in rows if row.label is None]
    if missing:
        raise RowErrors(missing)
    classes = sorted({str(row.label) for row in rows})
    if rare_class not in classes:
        raise InputError(unknown_name("class", rare_class, classes[:20]))
    if len(classes) == 1:
        raise InputError(f"All rows are of the class '{rare_class}': also pass rows of another class.")
    return [row for row in rows if row.label == rare_class], [row for row in rows if row.label != rare_class]


def _sizes(num_rare: int, num_rest: int, rate: float, most: int | None) -> list[tuple[int, int]]:
    """Rare and other rows of train, dev and test."""
    total = num_rare + num_rest
    test, dev = int(total * TEST_SHARE), int(total * DEV_SHARE)
    sizes = [total - dev - test, dev, test]
    if most is not None:
        sizes = [min(size, limit) for size, limit in zip(sizes, (most, most, 2 * most), strict=True)]
    return [(int(size * rate), size - int(size * rate)) for size in sizes]


def _shuffled(rows: Sequence[Row], seed: int, purpose: str) -> list[Row]:
    order: np.ndarray = generator(seed, purpose).permutation(len(rows))
    return [rows[place] for place in order.tolist()]


def _named(rare: Sequence[Row], rest: Sequence[Row]) -> list[Row]:
    return [replace(row, label=RARE) for row in rare] + [replace(row, label=REST) for row in rest]


# -- Bootstrap intervals of minority-class metrics and of paired differences between methods -------------------------
#
# A bootstrap sample is a count per row (how often it was drawn). With the rows sorted once by value, precision and
# recall at every cut of all samples are sums of counts. On the original rows the results equal those of `metrics`.


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
