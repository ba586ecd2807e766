"""No-answer threshold on the no-answer margin, tuned on some rows and evaluated on others.

Scores on the rows that a threshold was tuned on are too optimistic. So a `Threshold` records its rows, `report` rejects
them, and `cross_report` scores every row with a threshold tuned on others.
"""

from __future__ import annotations

import numpy as np

from ...core.errors import InputError
from ...core.randomness import generator
from ..evaluation.thresholds import Threshold, between, two_halves
from .scores import Scored, summarize

__all__ = ["Threshold", "cross_report", "halves", "out_of_fold_outcome", "report", "tune_threshold"]


def tune_threshold(scored: Scored, metric: str = "f1") -> Threshold:
    """Finds the threshold with the best mean of `metric` ("f1" or "exact_match"); of equals the lowest.

    Tries every cut between two different margins, including no answer for all or none. Raises InputError for no rows.
    """
    if not len(scored):
        raise InputError("Tuning a threshold needs rows: pass questions with known answers.")
    if metric not in ("f1", "exact_match"):
        raise InputError(f"A threshold is tuned for f1 or exact_match, not for '{metric}'.")
    column = ("exact_match", "f1").index(metric)
    order = np.argsort(scored.no_answer_margin, kind="stable")
    scores = scored.no_answer_margin[order]
    gain = (scored.answered - scored.unanswered)[order, column]  # of answering over predicting no answer
    totals = np.concatenate([[0.0], np.cumsum(gain)])  # totals[n]: gain of answering the n lowest margins
    cuts = np.flatnonzero(np.concatenate([[True], scores[1:] > scores[:-1], [True]]))  # equal scores stay together
    best = int(cuts[int(np.argmax(np.round(totals[cuts], 9)))])
    return Threshold(between(scores, best), frozenset(scored.keys))


def report(scored: Scored, threshold: Threshold | None = None) -> dict[str, float]:
    """Metrics with no answer predicted above `threshold` (None: every question is answered).

    Raises InputError if the threshold was tuned on any of the rows.
    """
    if threshold is None:
        return summarize(scored.answered, scored.has_answer)
    shared = sum(key in threshold.seen for key in scored.keys)
    if shared:
        raise InputError(
            f"The no-answer threshold was tuned on {shared:,} of these {len(scored):,} questions, so scores would be "
            "too optimistic: use other questions, or score each half with the threshold of the other (cross_report)."
        )
    return summarize(scored.outcome(threshold.value), scored.has_answer)


def halves(scored: Scored, seed: int = 0) -> tuple[Scored, Scored]:
    """Splits rows into two random halves with equal numbers (to within one) of answerable questions.

    Duplicates of a question and context are in the same half.
    """
    parts = two_halves(scored.keys, scored.has_answer, generator(seed, "qa-halves"))
    first, second = (scored.take(part) for part in parts)
    return first, second


def out_of_fold_outcome(scored: Scored, threshold: Threshold | None, may_refuse: bool | None) -> np.ndarray:
    """Exact match and F1 of each row, with a threshold that was not tuned on it: float64 [rows, 2].

    threshold: of the model, None if not tuned yet; may_refuse: whether no-answer predictions are allowed, None to allow
    them if any row is unanswerable. Rows that the threshold was tuned on (or all, if it is None) are scored in two
    halves, each with the threshold of the other.
    """
    if not (may_refuse or (may_refuse is None and not scored.has_answer.all())):
        return scored.answered
    if threshold is not None and not threshold.seen.intersection(scored.keys):
        return scored.outcome(threshold.value)
    if len(set(scored.keys)) < 2:  # no other rows to tune a threshold on
        return scored.outcome(Threshold().value)
    found = np.empty((len(scored), 2))
    parts = two_halves(scored.keys, scored.has_answer, generator(0, "qa-halves"))
    for own, other in (parts, parts[::-1]):
        found[own] = scored.take(own).outcome(tune_threshold(scored.take(other)).value)
    return found


def cross_report(scored: Scored, metric: str = "f1", seed: int = 0) -> tuple[dict[str, float], tuple[float, float]]:
    """Metrics over all rows, each half with the threshold tuned on the other; and the two thresholds."""
    first, second = halves(scored, seed)
    if not len(first) or not len(second):
        raise InputError("Two halves need at least two different questions: pass more.")
    thresholds = tune_threshold(second, metric), tune_threshold(first, metric)
    outcomes = [part.outcome(threshold.value) for part, threshold in zip((first, second), thresholds, strict=True)]
    has_answer = np.concatenate([first.has_answer, second.has_answer])
    return summarize(np.concatenate(outcomes), has_answer), (thresholds[0].value, thresholds[1].value)
