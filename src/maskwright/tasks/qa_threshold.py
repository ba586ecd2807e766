"""When to refuse a question: the threshold on its no-answer margin, chosen on some rows and reported on others.

A threshold that was chosen on the rows it is reported on looks better than it is. So a `Threshold` remembers the rows
that it was chosen on, and `report` refuses them; `cross_report` scores every row with a threshold chosen on others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import InputError, ModelFolderError
from ..core.randomness import generator
from .qa_scores import Scored, summarise


@dataclass(frozen=True)
class Threshold:
    """Refuse a question whose no-answer margin is above `value`; seen: the keys of the rows that chose it."""

    value: float = 0.0
    seen: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """For a model's folder; the rows stay with it, so that a saved threshold cannot be reported on them either."""
        return {"value": self.value, "tuned_on": sorted(self.seen)}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Threshold:
        """The threshold of `to_json`. Raises ModelFolderError when it is none."""
        value, seen = facts.get("value"), facts.get("tuned_on", [])
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and np.isfinite(value)
        if not is_number or not isinstance(seen, list) or not all(isinstance(key, str) for key in seen):
            raise ModelFolderError("maskwright.json holds a no-answer threshold that is not one: save the model again.")
        return cls(float(value), frozenset(seen))  # type: ignore[arg-type]


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
    return Threshold(_between(scores, best), frozenset(scored.keys))


def _between(scores: np.ndarray, count: int) -> float:
    """A finite number that only the `count` lowest of the sorted scores do not exceed."""
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
    where: dict[str, list[int]] = {}
    for row, key in enumerate(scored.keys):
        where.setdefault(key, []).append(row)
    keys = list(where)
    shuffled = [keys[place] for place in generator(seed, "qa-halves").permutation(len(keys))]
    parts: tuple[list[int], list[int]] = ([], [])
    for has_answer in (True, False):
        own = [key for key in shuffled if bool(scored.has_answer[where[key][0]]) == has_answer]
        for place, key in enumerate(own):
            parts[(place + (not has_answer)) % 2].extend(where[key])
    first, second = (scored.take(np.array(sorted(part), dtype=np.int64)) for part in parts)
    return first, second


def cross_report(scored: Scored, metric: str = "f1", seed: int = 0) -> tuple[dict[str, float], tuple[float, float]]:
    """Metrics over all rows, each half with the threshold chosen on the other; and the two thresholds."""
    first, second = halves(scored, seed)
    if not len(first) or not len(second):
        raise InputError("Two halves need two different questions: give more of them.")
    thresholds = tune_threshold(second, metric), tune_threshold(first, metric)
    outcomes = [part.outcome(threshold.value) for part, threshold in zip((first, second), thresholds, strict=True)]
    has_answer = np.concatenate([first.has_answer, second.has_answer])
    return summarise(np.concatenate(outcomes), has_answer), (thresholds[0].value, thresholds[1].value)
