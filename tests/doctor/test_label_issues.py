"""Flipped labels are at the top of the list; clean ones are not."""

from __future__ import annotations

import numpy as np
import pytest

from maskwright.core.errors import InputError
from maskwright.doctor.mislabeled import find_suspects, out_of_fold, suspect_rows
from tasks.standins import row


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


def test_what_cannot_be_scored():
    with pytest.raises(InputError, match="at least two"):
        out_of_fold(np.zeros((3, 2)), np.zeros(3, dtype=int))
    with pytest.raises(InputError, match="no label"):
        suspect_rows([row("a")], np.zeros((1, 2)))
