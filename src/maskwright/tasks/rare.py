"""A rare class in question: how it is scored against all others, and from which probability on it is given.

With one row in twenty, accuracy is high for a model that never gives the class. What counts is how rows of the class
rank (`pr_auc`), how many of them are found at a precision that people can bear (`recall_at_precision_90`), and the
`f1` of the decision, whose threshold is chosen on some rows and scored on others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.errors import InputError, ModelFolderError
from ..core.progress import warn
from ..core.randomness import generator
from . import metrics as scores
from .thresholds import Threshold, between, two_halves

PRECISION = 0.9  # of recall_at_precision_90
UNCHOSEN = 0.5  # what serves as a threshold until one can be chosen


@dataclass(frozen=True)
class RareClass:
    """The class in question.

    label: its name; tunes: whether a threshold on its probability is chosen on the dev rows; precision: None to choose
    it for the best F1, else the precision that it must reach, with as much recall as that leaves; threshold: what was
    chosen, None until then, and then the class is given where it is the most probable one.
    """

    label: str
    tunes: bool = False
    precision: float | None = None
    threshold: Threshold | None = None

    @property
    def cut(self) -> float | None:
        """The probability above which the class is given; None where none was chosen."""
        return None if self.threshold is None else self.threshold.value

    def settled(self, probabilities: np.ndarray, gold: np.ndarray, keys: Sequence[str]) -> RareClass:
        """The same with a threshold chosen on these rows.

        probabilities: float [rows], of the class; gold: bool [rows]; keys: of the rows. A wanted precision that no
        threshold reaches is told.
        """
        if not gold.any():
            warn(f"No dev row is of the class '{self.label}': no threshold can be chosen, {UNCHOSEN} serves.")
            return replace(self, threshold=Threshold(UNCHOSEN))
        threshold = choose_threshold(probabilities, gold, keys, self.precision)
        given = probabilities > threshold.value
        reached = float(gold[given].mean()) if given.any() else 0.0
        if self.precision is not None and reached < self.precision:
            warn(
                f"No threshold reaches a precision of {self.precision:g} for '{self.label}' on the dev rows; the one "
                f"with the highest, {reached:.3f}, is taken."
            )
        return replace(self, threshold=threshold)

    def cuts(self, probabilities: np.ndarray, gold: np.ndarray, keys: Sequence[str]) -> np.ndarray:
        """The threshold by which each row may be scored: float64 [rows].

        That of the model where it was chosen on other rows. Else the rows are divided in two halves, and each is scored
        with the threshold that the other chooses.
        """
        if self.threshold is not None and not self.threshold.seen.intersection(keys):
            return np.full(len(probabilities), self.threshold.value)
        found = np.full(len(probabilities), UNCHOSEN)
        first, second = two_halves(keys, gold, generator(0, "rare-halves"))
        for scored, chosen in ((first, second), (second, first)):
            if len(scored) and gold[chosen].any():
                found[scored] = choose_threshold(
                    probabilities[chosen], gold[chosen], [keys[row] for row in chosen], self.precision
                ).value
        return found

    def to_json(self) -> dict[str, Any]:
        """For a model's folder."""
        threshold = None if self.threshold is None else self.threshold.to_json()
        return {"label": self.label, "tunes": self.tunes, "precision": self.precision, "threshold": threshold}

    @classmethod
    def from_json(cls, facts: Any, labels: Sequence[str]) -> RareClass:
        """What `to_json` wrote, for a model with these labels. Raises ModelFolderError when it is not that."""
        if not isinstance(facts, Mapping) or facts.get("label") not in labels:
            raise ModelFolderError("The model's maskwright.json has a 'rare' class that is none of its labels.")
        tunes, precision, threshold = (facts.get(name) for name in ("tunes", "precision", "threshold"))
        is_precision = precision is None or (isinstance(precision, float) and 0 < precision <= 1)
        if not isinstance(tunes, bool) or not is_precision or not isinstance(threshold, Mapping | None):
            raise ModelFolderError("The model's maskwright.json describes its rare class in a way that is not ours.")
        return cls(facts["label"], tunes, precision, None if threshold is None else Threshold.from_json(threshold))


def joined_rare(
    classes: Sequence[RareClass | None], temperatures: Sequence[float], is_binary: bool
) -> RareClass | None:
    """The rare class of several models whose probabilities, each at its temperature, are made one by their mean.

    classes: of each model; is_binary: the class is given or not by its own logit alone, so that a threshold has its
    place at any temperature. Where all have a threshold for one class, theirs is the mean; else none holds, which is
    told, and the class of the first stays for the scores.
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
    warn(
        "The models have no threshold in common, of one class and on one scale: together they give the most probable "
        "class."
    )
    return None if first is None else RareClass(first.label)


def at_temperature(probability: float, temperature: float) -> float:
    """A probability of a binary choice when its logit is divided by `temperature`; beyond 0 to 1 it stays."""
    if temperature == 1.0 or not 0 < probability < 1:
        return probability
    return 1 / (1 + math.exp(-math.log(probability / (1 - probability)) / temperature))


def choose_threshold(
    values: np.ndarray, gold: np.ndarray, keys: Sequence[str], precision: float | None = None
) -> Threshold:
    """The threshold with the best F1 over these rows; or, of those with at least `precision`, with the most recall.

    values: float [rows], higher for the class; gold: bool [rows]; keys: of the rows, which the threshold remembers.
    Every cut between two different values is tried; of equals the lowest is taken. Where no cut has the precision, it
    is the one with the highest. Raises InputError when no row is of the class.
    """
    total = int(gold.sum())
    if not total:
        raise InputError("A threshold needs rows of the class to be chosen on: give more rows.")
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    above = total - np.concatenate([[0], np.cumsum(gold[order])])  # above[n]: of the class, without the n lowest
    cuts = np.flatnonzero(np.concatenate([[True], ordered[1:] > ordered[:-1]]))  # equal values stay together
    given = len(values) - cuts  # rows that are given the class
    if precision is None:
        quality = 2 * above[cuts] / (given + total)
    else:
        reached = above[cuts] / given
        quality = np.where(reached >= precision, 1 + above[cuts] / total, reached)
    best = int(cuts[int(np.argmax(np.round(quality, 12)))])
    return Threshold(between(ordered, best), frozenset(keys))


def rare_metrics(gold: np.ndarray, values: np.ndarray, given: np.ndarray | None = None) -> dict[str, float]:
    """pr_auc, f1 and recall_at_precision_90 of one class against the rest.

    gold: bool [rows]; values: float [rows], higher for the class; given: bool [rows], the decisions (None: no f1).
    """
    decided = {} if given is None else {"f1": scores.f1(gold.astype(int), given.astype(int))}
    return {
        "pr_auc": scores.pr_auc(gold, values),
        **decided,
        "recall_at_precision_90": scores.recall_at_precision(gold, values, PRECISION),
    }
