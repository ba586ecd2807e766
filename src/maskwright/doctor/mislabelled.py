"""The rows whose label is most likely wrong, by confident learning (Northcutt et al. 2021, arXiv:1911.00068).

The features of a frozen encoder and a logistic regression give each row probabilities from folds that it was not in. A
class asks for as much confidence as its own rows have on average; a row that another class claims, while its own does
not, is suspect, and suspects are ordered by how far the other class is ahead.
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
class Suspects:
    """order: row numbers, worst first. By row: margin, the probability of the likeliest other class minus that of the
    given one: float64 [rows]; likely, the most probable class: int64 [rows]; is_suspect: bool [rows].
    """

    order: np.ndarray
    margin: np.ndarray
    likely: np.ndarray
    is_suspect: np.ndarray


def out_of_fold(features: np.ndarray, labels: np.ndarray, *, folds: int = FOLDS, seed: int = 0) -> np.ndarray:
    """Probabilities of each row by logistic regressions that did not see it: float64 [rows, classes].

    features: float [rows, size]; labels: int [rows]. Folds hold each class evenly. Raises InputError where a class has
    fewer than two rows.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    counts = np.bincount(labels)
    if len(counts) < 2 or counts.min() < 2:
        raise InputError("Doubtful labels are found by comparing classes: at least two, with two rows or more each.")
    folds = min(folds, int(counts.min()))
    fold = np.empty(len(labels), dtype=np.int64)
    for label in range(len(counts)):
        rows = np.flatnonzero(labels == label)
        fold[rows[generator(seed, "folds", label).permutation(len(rows))]] = np.arange(len(rows)) % folds
    shares = np.empty((len(labels), len(counts)))
    for number in range(folds):
        held = fold == number
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.05, max_iter=500))
        shares[held] = model.fit(features[~held], labels[~held]).predict_proba(features[held])
    return shares


def find_suspects(shares: np.ndarray, labels: np.ndarray) -> Suspects:
    """Rank all rows. shares: float64 [rows, classes], from folds without the row; labels: int [rows]."""
    rows = np.arange(len(labels))
    limits = np.array([shares[labels == label, label].mean() for label in range(shares.shape[1])])
    claimed = np.where(shares >= limits, shares, -1.0)  # classes that are as sure as of their own rows
    winner = claimed.argmax(axis=1)
    is_suspect = (claimed.max(axis=1) >= 0) & (winner != labels)
    others = shares.copy()
    others[rows, labels] = -1.0
    margin = others.max(axis=1) - shares[rows, labels]
    order = np.lexsort((-margin, ~is_suspect))
    return Suspects(order, margin, shares.argmax(axis=1), is_suspect)


def suspect_rows(rows: Sequence[Any], features: np.ndarray, *, seed: int = 0) -> list[dict[str, Any]]:
    """The suspects among labelled rows, worst first: line, label, likely label, margin, and the texts.

    Raises InputError for rows without a label, and where there is nothing to compare.
    """
    if any(row.label is None for row in rows):
        raise InputError("Doubtful labels are looked for among labelled rows: some rows have no label.")
    names = sorted({row.label for row in rows})
    number = {name: place for place, name in enumerate(names)}
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
