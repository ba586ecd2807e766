"""Labeled rows of the demos, the classifiers compared on them, and the interval of an accuracy."""

from __future__ import annotations

import csv
import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from maskwright.core.errors import InputError
from maskwright.core.progress import note
from maskwright.text.readers.tables import read_table

TICKETS = Path(__file__).parent / "support_tickets.csv"
TEST_SHARE = 0.2
RESAMPLES = 10_000


@dataclass(frozen=True)
class Rows:
    """Labeled texts: for training, and for a test that decides nothing."""

    train_texts: list[str]
    train_labels: list[str]
    test_texts: list[str]
    test_labels: list[str]


@dataclass(frozen=True)
class SystemResult:
    """A classifier and its test scores, one per seed; is_right: [seeds, test rows]; predicted: by the last seed."""

    name: str
    accuracy: list[float]
    macro_f1: list[float]
    is_right: np.ndarray
    predicted: list[str]
    seconds: float

    @property
    def mean(self) -> float:
        """Mean test accuracy."""
        return float(np.mean(self.accuracy))


def read_rows(path: Path) -> Rows:
    """Labeled rows: by their `split` column if there is one, else a fifth for the test, by a hash of the text."""
    with path.open(encoding="utf-8-sig", newline="") as handle:
        has_split = "split" in (next(csv.reader(handle), []))
    if has_split:
        parts = [read_table(path, where={"split": part}).rows for part in ("train", "test")]
    else:
        rows = read_table(path).rows
        is_test = [int(hashlib.sha256(row.text.encode()).hexdigest(), 16) % 100 < 100 * TEST_SHARE for row in rows]
        parts = [[row for row, test in zip(rows, is_test, strict=True) if test == wanted] for wanted in (False, True)]
    if not all(parts):
        raise InputError(f"{path} has too few rows for a test set: pass about 50 labeled rows or more.")
    (train_texts, train_labels), (test_texts, test_labels) = (
        ([row.text for row in part], [str(row.label) for row in part]) for part in parts
    )
    note(f"Labeled rows: {len(train_texts)} for training, {len(test_texts)} for the test.")
    return Rows(train_texts, train_labels, test_texts, test_labels)


def tf_idf(rows: Rows) -> SystemResult:
    """TF-IDF of words and bigrams with logistic regression, its regularization chosen by cross-validation."""
    pipeline = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(max_iter=1000))
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.3, 1, 3, 10, 30]}, cv=5)
    return contend("TF-IDF and logistic regression", [search], rows)


def contend(name: str, classifiers: list[BaseEstimator], rows: Rows, folder: Path | None = None) -> SystemResult:
    """Fit each classifier on the training rows and score it on the test; save the last one's model in `folder`."""
    began = time.monotonic()
    accuracy, macro_f1, is_right, predicted = [], [], [], np.array([])
    for classifier in classifiers:
        classifier.fit(rows.train_texts, rows.train_labels)
        predicted = classifier.predict(rows.test_texts)
        is_right.append(predicted == np.array(rows.test_labels))
        accuracy.append(float(is_right[-1].mean()))
        macro_f1.append(float(f1_score(rows.test_labels, predicted, average="macro")))
    if folder is not None:
        classifiers[-1].save(folder)
    seconds = time.monotonic() - began
    note(f"     {name}: test accuracy {np.mean(accuracy):.3f}")
    return SystemResult(name, accuracy, macro_f1, np.array(is_right), predicted.tolist(), seconds)


def accuracy_interval(is_right: np.ndarray) -> tuple[float, float]:
    """95% bootstrap interval of a mean accuracy over test rows. is_right: bool [seeds, rows]."""
    return _interval(is_right.mean(axis=0))


def difference_interval(first: SystemResult, second: SystemResult) -> tuple[float, float]:
    """95% paired bootstrap interval of the difference of two mean accuracies on the same rows."""
    return _interval(first.is_right.mean(axis=0) - second.is_right.mean(axis=0))


def _interval(by_row: np.ndarray) -> tuple[float, float]:
    drawn = np.random.default_rng(0).integers(len(by_row), size=(RESAMPLES, len(by_row)))
    low, high = np.quantile(by_row[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)
