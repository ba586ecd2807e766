"""Compares the main metric of two models on the same rows, with significance tests.

Each task decomposes its main metric into contributions per row (`parts`), so that the metric of any resample of rows is
computed without running the models again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ...core.errors import InputError
from ..anomaly.task import Anomaly
from ..base import Task
from ..choice.task import Choice
from ..classification.answers import THRESHOLD
from ..classification.task import Classification
from ..qa.task import QuestionAnswering
from ..qa.threshold import out_of_fold_outcome
from ..regression.task import Regression
from ..rows.examples import Examples
from ..rows.sequence import labeled
from ..similarity.rows import PairExamples
from ..similarity.task import DIGITS, Similarity
from ..tagging.examples import TaggedExamples
from ..tagging.schemes import spans
from ..tagging.task import Tagging
from . import metrics as scores
from .significance import Difference, McNemar, bootstrap_metric, bootstrap_scores, mcnemar, permutation_test

SAMPLES = 2000  # for metrics that are not a mean over rows


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
        """All fields, with the conclusion as a sentence."""
        return asdict(self) | {"is_significant": self.is_significant, "sentence": self.sentence("A", "B")}

    @property
    def is_significant(self) -> bool:
        """Whether both the bootstrap and the permutation test are significant."""
        return self.difference.is_significant and self.permutation_p < 1 - self.difference.confidence

    def sentence(self, first: str, second: str) -> str:
        """The conclusion in words."""
        found, name = self.difference, self.metric.replace("_", " ")
        if found.difference == 0:
            return f"{first} and {second} have the same {name} on these {found.num_rows:,} rows."
        better, worse = (first, second) if found.difference > 0 else (second, first)
        low, high = sorted((abs(found.low), abs(found.high)))
        if self.is_significant:
            return (
                f"{better} is better: its {name} is {abs(found.difference):.4f} higher; {found.confidence:.0%} "
                f"bootstrap interval {low:.4f} to {high:.4f}."
            )
        p_value = max(found.p_value, self.permutation_p)
        return (
            f"The difference is not significant on these {found.num_rows:,} rows: {better} is "
            f"{abs(found.difference):.4f} ahead of {worse} in {name} (p = {p_value:.3f})."
        )


def rate(task: Task, logits: Tensor, examples: Examples) -> ScoredPredictions:
    """Decomposes the main metric of a task by row. Raises InputError for a task without such a metric."""
    for kind, rater in _RATERS:
        if isinstance(task, kind):
            return rater(task, logits, examples)
    raise InputError(f"Models for {task.name} cannot be compared row by row.")


def on_equal_terms(first: Task, second: Task) -> tuple[Task, Task]:
    """Returns both tasks with the same main metric: if one has a rare class, the other uses it too.

    Raises InputError for a class that the other does not have, and for anomaly detectors with different normal classes.
    """
    if isinstance(first, Anomaly) and isinstance(second, Anomaly) and first.normal != second.normal:
        raise InputError(f"One model learned '{first.normal}' as normal and the other '{second.normal}'.")
    if not (isinstance(first, Classification) and isinstance(second, Classification)):
        return first, second
    rare = first.rare or second.rare
    return (first, second) if rare is None else (first.for_class(rare.label), second.for_class(rare.label))


def compare(first: ScoredPredictions, second: ScoredPredictions, *, seed: int = 0) -> Compared:
    """Runs a paired bootstrap, a permutation test, and McNemar's test if predictions are right or wrong.

    Raises InputError for different rows or metrics.
    """
    if first.metric != second.metric:
        raise InputError(f"One model is scored by {first.metric} and the other by {second.metric}: their tasks differ.")
    if first.of is _mean:
        found = bootstrap_scores(first.parts[:, 0], second.parts[:, 0], seed=seed)
    else:
        found = bootstrap_metric(_of(first), first.parts[:, 0], first.parts, second.parts, samples=SAMPLES, seed=seed)
    p_value = permutation_test(_of(first), first.parts[:, 0], first.parts, second.parts, samples=SAMPLES, seed=seed)
    tosses = None
    if first.is_right is not None and second.is_right is not None:
        tosses = mcnemar(np.ones(len(first.is_right), dtype=bool), first.is_right, second.is_right)
    return Compared(first.metric, first.of(first.parts), second.of(second.parts), found, p_value, tosses)


def _of(rated: ScoredPredictions) -> Callable[[np.ndarray, np.ndarray], float]:
    """The metric as a function of (gold, parts); the parts already contain the gold labels."""
    return lambda gold, parts: rated.of(parts)


def _rate_classes(task: Classification, logits: Tensor, examples: Examples) -> ScoredPredictions:
    gold, predicted = labeled(examples).numpy(), task.decide(logits, task.out_of_fold_thresholds(logits, examples))
    right = (predicted == (gold >= THRESHOLD)).all(axis=1) if task.multi_label else predicted == gold
    if task.rare is not None:
        shares, is_rare, _ = task.rare_rows(logits, examples)
        parts = np.stack([is_rare, shares], axis=1).astype(np.float64)
        return ScoredPredictions("pr_auc", parts, _pr_auc, right)
    if task.multi_label:
        truth = gold >= THRESHOLD
        counts = np.stack([truth.sum(1), predicted.sum(1), (truth & predicted).sum(1)], axis=1).astype(np.float64)
        return ScoredPredictions("f1", counts, _f1, right)
    return ScoredPredictions("accuracy", right[:, None].astype(np.float64), _mean, right)


def _rate_answers(task: QuestionAnswering, logits: Tensor, examples: Examples) -> ScoredPredictions:
    outcome = out_of_fold_outcome(task.scored(logits, examples), task.threshold, task.may_refuse)  # [rows, 2]
    return ScoredPredictions("f1", outcome[:, 1:], _mean, outcome[:, 0] == 1.0)


def _rate_choices(task: Choice, logits: Tensor, examples: Examples) -> ScoredPredictions:
    right = logits.argmax(dim=-1).numpy() == labeled(examples).numpy()
    return ScoredPredictions("accuracy", right[:, None].astype(np.float64), _mean, right)


def _rate_numbers(task: Regression, logits: Tensor, examples: Examples) -> ScoredPredictions:
    parts = np.stack([labeled(examples).numpy(), logits.squeeze(-1).numpy()], axis=1).astype(np.float64)
    return ScoredPredictions("pearson", parts, lambda both: scores.pearson(both[:, 0], both[:, 1]))


def _rate_cosines(task: Similarity, logits: Tensor, examples: Examples) -> ScoredPredictions:
    if not isinstance(examples, PairExamples) or not examples.is_scored:
        raise InputError("Sentence embeddings are compared on pairs with scores; these rows have none.")
    parts = np.stack([labeled(examples).numpy(), task.cosines(logits).numpy().round(DIGITS)], axis=1)
    return ScoredPredictions("spearman", parts.astype(np.float64), lambda both: scores.spearman(both[:, 0], both[:, 1]))


def _rate_anomalies(task: Anomaly, logits: Tensor, examples: Examples) -> ScoredPredictions:
    """PR AUC if there are anomalies, otherwise explained variance."""
    errors, is_rare, found = task.decide(logits, examples)
    if not is_rare.any():
        return ScoredPredictions("explained_variance", 1 - errors[:, None], _mean)
    parts = np.stack([is_rare, errors], axis=1).astype(np.float64)
    return ScoredPredictions("pr_auc", parts, _pr_auc, found == is_rare)


def _rate_tags(task: Tagging, logits: Tensor, examples: Examples) -> ScoredPredictions:
    assert isinstance(examples, TaggedExamples)
    gold, found = task.gold_of(examples), task.tags_of(logits, examples)
    right = np.array([truth == guess for truth, guess in zip(gold, found, strict=True)])
    if task.scheme is None:
        counts = [[sum(map(str.__eq__, truth, guess)), len(truth)] for truth, guess in zip(gold, found, strict=True)]
        return ScoredPredictions("accuracy", np.array(counts, dtype=np.float64), _share, right)
    return ScoredPredictions("entity_f1", np.array(_entity_counts(gold, found), dtype=np.float64), _f1, right)


def _entity_counts(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> list[list[int]]:
    """Number of gold, predicted and correct entities of each sentence."""
    both = [(set(spans(truth)), set(spans(guess))) for truth, guess in zip(gold, found, strict=True)]
    return [[len(known), len(guessed), len(known & guessed)] for known, guessed in both]


def _mean(parts: np.ndarray) -> float:
    return float(parts[:, 0].mean())


def _pr_auc(parts: np.ndarray) -> float:
    """PR AUC of [rows, 2]: whether a row is of the class, and its score."""
    return scores.pr_auc(parts[:, 0] > 0, parts[:, 1])


def _share(parts: np.ndarray) -> float:
    right, total = parts.sum(axis=0)
    return float(right / total) if total else 0.0


def _f1(parts: np.ndarray) -> float:
    """F1 of counts [rows, 3]: gold, predicted, correct."""
    gold, found, both = parts.sum(axis=0)
    return float(2 * both / (gold + found)) if gold + found else 0.0


_RATERS: tuple[tuple[type[Task], Callable[[Any, Tensor, Examples], ScoredPredictions]], ...] = (
    (Tagging, _rate_tags),
    (QuestionAnswering, _rate_answers),
    (Choice, _rate_choices),
    (Similarity, _rate_cosines),
    (Anomaly, _rate_anomalies),
    (Regression, _rate_numbers),
    (Classification, _rate_classes),
)
