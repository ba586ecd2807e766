"""Two models on the same rows: which has the better main metric, and whether that is more than luck.

Each kind of task says what a row adds to its main metric (`parts`), so that the metric of any draw of rows is known
without asking the models again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ..core.errors import InputError
from . import metrics as scores
from .anomaly import Anomaly
from .base import Task
from .choice import Choice
from .class_answers import THRESHOLD
from .classification import Classification
from .examples import Examples
from .qa import QuestionAnswering
from .qa_threshold import fair_outcome
from .regression import Regression
from .schemes import spans
from .sequence import labelled
from .significance import Difference, McNemar, bootstrap_metric, bootstrap_scores, mcnemar, permutation_test
from .similar_rows import PairExamples
from .similarity import DIGITS, Similarity
from .tagged_examples import TaggedExamples
from .tagging import Tagging

SAMPLES = 2000  # of metrics that are no mean over rows


@dataclass(frozen=True)
class Rated:
    """A model's answers as numbers.

    metric: the task's main one; parts: float64 [rows, parts], what each row adds; of: parts of any rows -> the metric;
    is_right: bool [rows], None where an answer is not simply right or wrong; num_rows: how many there are.
    """

    metric: str
    parts: np.ndarray
    of: Callable[[np.ndarray], float]
    is_right: np.ndarray | None = None


@dataclass(frozen=True)
class Compared:
    """The main metric of both, their difference with its interval, and the p of each test."""

    metric: str
    first: float
    second: float
    difference: Difference
    permutation_p: float
    mcnemar: McNemar | None

    def to_json(self) -> dict[str, Any]:
        """Everything, with the sentence."""
        return asdict(self) | {"is_significant": self.is_significant, "sentence": self.sentence("A", "B")}

    @property
    def is_significant(self) -> bool:
        """Whether the bootstrap and the permutation test both say so."""
        return self.difference.is_significant and self.permutation_p < 1 - self.difference.confidence

    def sentence(self, first: str, second: str) -> str:
        """What it means, in words."""
        found, name = self.difference, self.metric.replace("_", " ")
        if found.difference == 0:
            return f"{first} and {second} have the same {name} on these {found.num_rows:,} rows."
        better, worse = (first, second) if found.difference > 0 else (second, first)
        low, high = sorted((abs(found.low), abs(found.high)))
        if self.is_significant:
            return (
                f"{better} is better: its {name} is {abs(found.difference):.4f} higher, and {found.confidence:.0%} of "
                f"the bootstrap samples put the gain between {low:.4f} and {high:.4f}."
            )
        p_value = max(found.p_value, self.permutation_p)
        return (
            f"These {found.num_rows:,} rows do not tell which is better: {better} is {abs(found.difference):.4f} ahead "
            f"of {worse} in {name}, which is within what chance gives (p = {p_value:.3f})."
        )


def rate(task: Task, logits: Tensor, examples: Examples) -> Rated:
    """What each row adds to the main metric of a task. Raises InputError for a task that has no such parts."""
    for kind, rater in _RATERS:
        if isinstance(task, kind):
            return rater(task, logits, examples)
    raise InputError(f"Models for {task.name} cannot be compared row by row.")


def on_equal_terms(first: Task, second: Task) -> tuple[Task, Task]:
    """Both tasks so that their main metrics are one: where one of them is about a rare class, both are about it.

    Raises InputError for a class that the other does not have, and for detectors of anomalies of two normal classes.
    """
    if isinstance(first, Anomaly) and isinstance(second, Anomaly) and first.normal != second.normal:
        raise InputError(f"One model learnt '{first.normal}' as normal and the other '{second.normal}'.")
    if not (isinstance(first, Classification) and isinstance(second, Classification)):
        return first, second
    rare = first.rare or second.rare
    return (first, second) if rare is None else (first.asked_for(rare.label), second.asked_for(rare.label))


def compare(first: Rated, second: Rated, *, seed: int = 0) -> Compared:
    """Paired bootstrap, permutation test, and McNemar's where rows are right or wrong.

    Raises InputError when they are of different rows or metrics.
    """
    if first.metric != second.metric:
        raise InputError(f"One model is judged by {first.metric} and the other by {second.metric}: their tasks differ.")
    if first.of is _mean:
        found = bootstrap_scores(first.parts[:, 0], second.parts[:, 0], seed=seed)
    else:
        found = bootstrap_metric(_of(first), first.parts[:, 0], first.parts, second.parts, samples=SAMPLES, seed=seed)
    p_value = permutation_test(_of(first), first.parts[:, 0], first.parts, second.parts, samples=SAMPLES, seed=seed)
    tosses = None
    if first.is_right is not None and second.is_right is not None:
        tosses = mcnemar(np.ones(len(first.is_right), dtype=bool), first.is_right, second.is_right)
    return Compared(first.metric, first.of(first.parts), second.of(second.parts), found, p_value, tosses)


def _of(rated: Rated) -> Callable[[np.ndarray, np.ndarray], float]:
    """The metric in the form that the tests take; the gold answers are in the parts already."""
    return lambda gold, parts: rated.of(parts)


def _rate_classes(task: Classification, logits: Tensor, examples: Examples) -> Rated:
    gold, guess = labelled(examples).numpy(), task.decide(logits, task.fair_cuts(logits, examples))
    right = (guess == (gold >= THRESHOLD)).all(axis=1) if task.multi_label else guess == gold
    if task.rare is not None:
        shares, is_rare, _ = task.rare_rows(logits, examples)
        parts = np.stack([is_rare, shares], axis=1).astype(np.float64)
        return Rated("pr_auc", parts, _pr_auc, right)
    if task.multi_label:
        truth = gold >= THRESHOLD
        counts = np.stack([truth.sum(1), guess.sum(1), (truth & guess).sum(1)], axis=1).astype(np.float64)
        return Rated("f1", counts, _f1, right)
    return Rated("accuracy", right[:, None].astype(np.float64), _mean, right)


def _rate_answers(task: QuestionAnswering, logits: Tensor, examples: Examples) -> Rated:
    outcome = fair_outcome(task.scored(logits, examples), task.threshold, task.may_refuse)  # [rows, 2]
    return Rated("f1", outcome[:, 1:], _mean, outcome[:, 0] == 1.0)


def _rate_choices(task: Choice, logits: Tensor, examples: Examples) -> Rated:
    right = logits.argmax(dim=-1).numpy() == labelled(examples).numpy()
    return Rated("accuracy", right[:, None].astype(np.float64), _mean, right)


def _rate_numbers(task: Regression, logits: Tensor, examples: Examples) -> Rated:
    parts = np.stack([labelled(examples).numpy(), logits.squeeze(-1).numpy()], axis=1).astype(np.float64)
    return Rated("pearson", parts, lambda both: scores.pearson(both[:, 0], both[:, 1]))


def _rate_cosines(task: Similarity, logits: Tensor, examples: Examples) -> Rated:
    if not isinstance(examples, PairExamples) or not examples.is_scored:
        raise InputError("Vectors of sentences are compared on pairs with scores; these rows have none.")
    parts = np.stack([labelled(examples).numpy(), task.cosines(logits).numpy().round(DIGITS)], axis=1)
    return Rated("spearman", parts.astype(np.float64), lambda both: scores.spearman(both[:, 0], both[:, 1]))


def _rate_anomalies(task: Anomaly, logits: Tensor, examples: Examples) -> Rated:
    """Where rows of both kinds are there, how they rank; else the part of the variance that comes through."""
    errors, is_rare, found = task.judged(logits, examples)
    if not is_rare.any():
        return Rated("explained_variance", 1 - errors[:, None], _mean)
    parts = np.stack([is_rare, errors], axis=1).astype(np.float64)
    return Rated("pr_auc", parts, _pr_auc, found == is_rare)


def _rate_tags(task: Tagging, logits: Tensor, examples: Examples) -> Rated:
    assert isinstance(examples, TaggedExamples)
    gold, found = task.gold_of(examples), task.tags_of(logits, examples)
    right = np.array([truth == guess for truth, guess in zip(gold, found, strict=True)])
    if task.scheme is None:
        counts = [[sum(map(str.__eq__, truth, guess)), len(truth)] for truth, guess in zip(gold, found, strict=True)]
        return Rated("accuracy", np.array(counts, dtype=np.float64), _share, right)
    return Rated("entity_f1", np.array(_entity_counts(gold, found), dtype=np.float64), _f1, right)


def _entity_counts(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> list[list[int]]:
    """For each sentence its gold entities, the ones that were found, and those that are both."""
    both = [(set(spans(truth)), set(spans(guess))) for truth, guess in zip(gold, found, strict=True)]
    return [[len(known), len(guessed), len(known & guessed)] for known, guessed in both]


def _mean(parts: np.ndarray) -> float:
    return float(parts[:, 0].mean())


def _pr_auc(parts: np.ndarray) -> float:
    """Of [rows, 2]: whether a row is of the class, and its score."""
    return scores.pr_auc(parts[:, 0] > 0, parts[:, 1])


def _share(parts: np.ndarray) -> float:
    right, total = parts.sum(axis=0)
    return float(right / total) if total else 0.0


def _f1(parts: np.ndarray) -> float:
    """Of counts [rows, 3]: gold, found, both."""
    gold, found, both = parts.sum(axis=0)
    return float(2 * both / (gold + found)) if gold + found else 0.0


_RATERS: tuple[tuple[type[Task], Callable[[Any, Tensor, Examples], Rated]], ...] = (
    (Tagging, _rate_tags),
    (QuestionAnswering, _rate_answers),
    (Choice, _rate_choices),
    (Similarity, _rate_cosines),
    (Anomaly, _rate_anomalies),
    (Regression, _rate_numbers),
    (Classification, _rate_classes),
)
