"""Finds label errors by confident learning (Northcutt et al. 2021, arXiv:1911.00068).

A logistic regression on the features of a frozen encoder gives out-of-fold probabilities. The threshold of a class is
the mean probability of its own rows. A row is a label issue if the most probable class above its threshold is not the
given label; issues are ranked by the margin of the other class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.errors import InputError

FOLDS = 5


def out_of_fold(features: np.ndarray, labels: np.ndarray, *, folds: int = FOLDS, seed: int = 0) -> np.ndarray:
    """Return out-of-fold probabilities of a logistic regression: float64 [rows, classes].

    features: float [rows, size]; labels: int [rows]. Folds are stratified. Raises InputError if there are fewer than
    two classes, or a class has fewer than two rows.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    counts = np.bincount(labels)
    if len(counts) < 2 or counts.min() < 2:
        raise InputError("Finding label errors requires at least two classes with at least two rows each.")
    split = StratifiedKFold(min(folds, int(counts.min())), shuffle=True, random_state=seed)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.05, max_iter=500))
    shares: np.ndarray = cross_val_predict(model, features, labels, cv=split, method="predict_proba")
    return shares


def find_suspects(shares: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the label issues, worst first, and all margins.

    Args:
        shares: Out-of-fold probabilities, float64 [rows, classes].
        labels: int [rows].

    Returns:
        Indices of the rows that are issues, int64 [issues]; probability of the most probable other class minus that of
        the given label, float64 [rows].
    """
    rows = np.arange(len(labels))
    limits = np.array([shares[labels == label, label].mean() for label in range(shares.shape[1])])
    claimed = np.where(shares >= limits, shares, -1.0)  # classes above their threshold
    suspects = np.flatnonzero((claimed.max(axis=1) >= 0) & (claimed.argmax(axis=1) != labels))
    others = shares.copy()
    others[rows, labels] = -1.0
    margin = others.max(axis=1) - shares[rows, labels]
    return suspects[np.argsort(-margin[suspects], kind="stable")], margin


def suspect_rows(rows: Sequence[Any], features: np.ndarray, *, seed: int = 0) -> list[dict[str, Any]]:
    """Return the label issues, worst first: line, label, likely label, margin and texts.

    Raises InputError if a row has no label, or there are too few classes or rows to compare.
    """
    if any(row.label is None for row in rows):
        raise InputError("Finding label errors requires labeled rows: some rows have no label.")
    names = sorted({row.label for row in rows})
    number = {name: index for index, name in enumerate(names)}
    labels = np.array([number[row.label] for row in rows])
    shares = out_of_fold(features, labels, seed=seed)
    chosen, margin = find_suspects(shares, labels)
    return [
        {
            "line": rows[row].line,
            "label": rows[row].label,
            "likely": names[shares[row].argmax()],
            "margin": float(margin[row]),
            "text": rows[row].text,
            **({} if rows[row].text_pair is None else {"text_pair": rows[row].text_pair}),
        }
        for row in chosen.tolist()
    ]
