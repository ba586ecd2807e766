"""Finds label errors by confident learning (Northcutt et al. 2021, arXiv:1911.00068).

A logistic regression on the features of a frozen encoder gives out-of-fold probabilities. The threshold of a class is
the mean probability of its own rows. A row is a label issue if the most probable class above its threshold is not the
given label; issues are ranked by the margin of the other class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.randomness import generator

FOLDS = 5


@dataclass(frozen=True)
class LabelIssues:
    """Ranked label issues.

    order: row indices, worst first. margin: probability of the most probable other class minus that of the given
    label, float64 [rows]; likely: most probable class, int64 [rows]; is_suspect: bool [rows].
    """

    order: np.ndarray
    margin: np.ndarray
    likely: np.ndarray
    is_suspect: np.ndarray


def out_of_fold(features: np.ndarray, labels: np.ndarray, *, folds: int = FOLDS, seed: int = 0) -> np.ndarray:
    """Return out-of-fold probabilities of a logistic regression: float64 [rows, classes].

    features: float [rows, size]; labels: int [rows]. Folds are stratified. Raises InputError if there are fewer than
    two classes, or a class has fewer than two rows.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    counts = np.bincount(labels)
    if len(counts) < 2 or counts.min() < 2:
        raise InputError("Finding label errors requires at least two classes with at least two rows each.")
    folds = min(folds, int(counts.min()))
    fold = np.empty(len(labels), dtype=np.int64)
    for label in range(len(counts)):
        rows = np.flatnonzero(labels == label)
        fold[rows[generator(seed, "folds", label).permutation(len(rows))]] = np.arange(len(rows)) % folds
    shares = np.empty((len(labels), len(counts)))
    for number in range(folds):
        held_out = fold == number
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.05, max_iter=500))
        shares[held_out] = model.fit(features[~held_out], labels[~held_out]).predict_proba(features[held_out])
    return shares


def find_suspects(shares: np.ndarray, labels: np.ndarray) -> LabelIssues:
    """Rank all rows. shares: out-of-fold probabilities, float64 [rows, classes]; labels: int [rows]."""
    rows = np.arange(len(labels))
    limits = np.array([shares[labels == label, label].mean() for label in range(shares.shape[1])])
    claimed = np.where(shares >= limits, shares, -1.0)  # classes above their threshold
    winner = claimed.argmax(axis=1)
    is_suspect = (claimed.max(axis=1) >= 0) & (winner != labels)
    others = shares.copy()
    others[rows, labels] = -1.0
    margin = others.max(axis=1) - shares[rows, labels]
    order = np.lexsort((-margin, ~is_suspect))
    return LabelIssues(order, margin, shares.argmax(axis=1), is_suspect)


def suspect_rows(rows: Sequence[Any], features: np.ndarray, *, seed: int = 0) -> list[dict[str, Any]]:
    """Return the label issues, worst first: line, label, likely label, margin and texts.

    Raises InputError if a row has no label, or there are too few classes or rows to compare.
    """
    if any(row.label is None for row in rows):
        raise InputError("Finding label errors requires labeled rows: some rows have no label.")
    names = sorted({row.label for row in rows})
    number = {name: index for index, name in enumerate(names)}
    labels = np.array([number[row.label] for row in rows])
    found = find_suspects(out_of_fold(features, labels, seed=seed), labels)
    chosen = [row for row in found.order.tolist() if found.is_suspect[row]]
    return [
        {
            "line": rows[row].line,
            "label": rows[row].label,
            "likely": names[found.likely[row]],
            "margin": float(found.margin[row]),
            "text": rows[row].text,
            **({} if rows[row].text_pair is None else {"text_pair": rows[row].text_pair}),
        }
        for row in chosen
    ]
