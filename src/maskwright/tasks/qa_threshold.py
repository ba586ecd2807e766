"""When to refuse a question: the threshold on its no-answer margin, chosen on some rows and reported on others.

A threshold that was chosen on the rows it is reported on looks better than it is. So a `Threshold` remembers the rows
that it was chosen on, and `report` refuses them; `cross_report` scores every row with a threshold chosen on others.
"""

from __future__ import annotations

import numpy as np

from ..core.errors import InputError
from ..core.randomness import generator
from .qa_scores import Scored, summarise
from .thresholds import Threshold, between, two_halves

__all__ = ["Threshold", "cross_report", "fair_outcome", "halves", "report", "tune_threshold"]


def tune_threshold(scored: Scored, metric: str = "f1") -> Threshold:
    """The threshold with the best mean of `metric` ("f1" or "exact_match") over these rows; the lowest of equals.

    Every cut between two different scores is tried, with all and no questions refused. Raises InputError without rows.
    """
    if not len(scored):
        raise InputError("A threshold needs rows to be chosen on: give questions with known answers.")
    if metric not in ("f1", "exact_match"):
        raise InputError(f"A threshold is chosen by f1 or exact_match, not by '{metric}'.")
    column = ("exact_match", "f1").index(metric)
    order = np.argsort(scored.no_answer_margin, kind="stable")
    scores = scored.no_answer_margin[order]
    gain = (scored.answered - scored.refused)[order, column]  # of answering instead of refusing
    totals = np.concatenate([[0.0], np.cumsum(gain)])  # totals[n]: of answering the n lowest scores
    cuts = np.flatnonzero(np.concatenate([[True], scores[1:] > scores[:-1], [True]]))  # equal scores stay together
    best = int(cuts[int(np.argmax(np.round(totals[cuts], 9)))])
    return Threshold(between(scores, best), frozenset(scored.keys))


def report(scored: Scored, threshold: Threshold | None = None) -> dict[str, float]:
    """Metrics of rows when questions above `threshold` are refused (None: every question is answered).

    Raises InputError when any of the rows had a part in choosing the threshold.
    """
    if threshold is None:
        return summarise(scored.answered, scored.has_answer)
    shared = sum(key in threshold.seen for key in scored.keys)
    if shared:
        raise InputError(
            f"The no-answer threshold was chosen on {shared:,} of these {len(scored):,} questions, so scores would "
            "flatter: report on other questions, or score each half with the threshold of the other (cross_report)."
        )
    return summarise(scored.outcome(threshold.value), scored.has_answer)


def halves(scored: Scored, seed: int = 0) -> tuple[Scored, Scored]:
    """Two halves drawn by `seed`, with as many questions that have an answer in each (but for one).

    The same question on the same context is in one half only.
    """
    parts = two_halves(scored.keys, scored.has_answer, generator(seed, "qa-halves"))
    first, second = (scored.take(part) for part in parts)
    return first, second


def fair_outcome(scored: Scored, threshold: Threshold | None, may_refuse: bool | None) -> np.ndarray:
    """Exact match and F1 of each row, by a threshold that the row had no part in: float64 [rows, 2].

    threshold: of the model, None where none was chosen yet; may_refuse: None where that is not known, and then rows
    without an answer say it. Rows that chose the threshold, or come before it is chosen, are scored in two halves, each
    with the threshold of the other.
    """
    if not (may_refuse or (may_refuse is None and not scored.has_answer.all())):
        return scored.answered
    if threshold is not None and not threshold.seen.intersection(scored.keys):
        return scored.outcome(threshold.value)
    if len(set(scored.keys)) < 2:  # nothing to choose a threshold on: none is chosen
        return scored.outcome(Threshold().value)
    found = np.empty((len(scored), 2))
    parts = two_halves(scored.keys, scored.has_answer, generator(0, "qa-halves"))
    for own, other in (parts, parts[::-1]):
        found[own] = scored.take(own).outcome(tune_threshold(scored.take(other)).value)
    return found


def cross_report(scored: Scored, metric: str = "f1", seed: int = 0) -> tuple[dict[str, float], tuple[float, float]]:
    """Metrics over all rows, each half with the threshold chosen on the other; and the two thresholds."""
    first, second = halves(scored, seed)
    if not len(first) or not len(second):
        raise InputError("Two halves need two different questions: give more of them.")
    thresholds = tune_threshold(second, metric), tune_threshold(first, metric)
    outcomes = [part.outcome(threshold.value) for part, threshold in zip((first, second), thresholds, strict=True)]
    has_answer = np.concatenate([first.has_answer, second.has_answer])
    return summarise(np.concatenate(outcomes), has_answer), (thresholds[0].value, thresholds[1].value)
