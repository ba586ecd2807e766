"""Flipped labels are at the top of the list; clean ones are not."""

from __future__ import annotations

import numpy as np
import pytest

from maskwright.core.errors import InputError
from maskwright.doctor.clinic import find_suspects, out_of_fold, suspect_rows
from tasks.standins import row


def clusters(num=600, classes=3, seed=0):
    draw = np.random.Generator(np.random.PCG64(seed))
    labels = draw.integers(0, classes, num)
    return draw.normal(size=(classes, 8))[labels] * 2 + draw.normal(size=(num, 8)), labels


def test_flipped_labels_stand_at_the_top():
    features, truth = clusters()
    flipped = np.arange(0, 600, 20)  # 5 % of them
    labels = truth.copy()
    labels[flipped] = (labels[flipped] + 1) % 3
    shares = out_of_fold(features, labels)
    suspects, _ = find_suspects(shares, labels)
    top = suspects[: len(flipped)]
    assert np.isin(top, flipped).mean() > 0.8  # chance: 0.05
    right = np.intersect1d(top, flipped)
    assert (shares[right].argmax(axis=1) == truth[right]).mean() > 0.9


def test_no_row_has_a_part_in_its_own_probabilities():
    """Features that only identify the row: a fold that contains it would know its label."""
    labels = np.arange(40) % 2
    shares = out_of_fold(np.eye(40), labels)
    assert shares[np.arange(40), labels].max() < 0.6
    assert shares.sum(axis=1) == pytest.approx(np.ones(40))


def test_a_suspect_by_hand():
    """Limits 0.8 and 0.7: row 2 is claimed by class 1, row 3 is unsure but claimed by none."""
    shares = np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.3, 0.7], [0.45, 0.55]])
    labels = np.array([0, 0, 0, 1, 1, 0])
    suspects, margin = find_suspects(shares, labels)
    assert suspects.tolist() == [2] and margin[2] == pytest.approx(0.6)


def test_rows_come_with_lines_labels_and_texts():
    features, labels = clusters(120, classes=2, seed=3)
    rows = [row(f"text {n}", "ab"[label], line=n + 2) for n, label in enumerate(labels)]
    rows[7] = row("text 7", "ba"[labels[7]], line=9)
    found = suspect_rows(rows, features)
    assert found[0] == {
        "line": 9,
        "label": "ba"[labels[7]],
        "likely": "ab"[labels[7]],
        "margin": found[0]["margin"],
        "text": "text 7",
    }
    assert [one["margin"] for one in found] == sorted((one["margin"] for one in found), reverse=True)


def test_what_cannot_be_scored():
    with pytest.raises(InputError, match="at least two"):
        out_of_fold(np.zeros((3, 2)), np.zeros(3, dtype=int))
    with pytest.raises(InputError, match="no label"):
        suspect_rows([row("a")], np.zeros((1, 2)))
