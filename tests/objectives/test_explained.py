"""The two losses of one prediction, and the masking of one sentence."""

from __future__ import annotations

import pytest

from maskwright.lessons.parts import explain_loss

WORDS = ["the", "man", "went", "to", "the", "store", "to", "buy", "a", "gallon", "of", "milk"]


def test_the_losses_of_the_lecture():
    found = explain_loss([0.6, 0.12, 0.18, 0.1], [0, 0, 1, 0])
    assert found.binary == pytest.approx(0.7161, abs=5e-5) and found.categorical == pytest.approx(1.7148, abs=5e-5)
    assert found.binary == pytest.approx(sum(found.terms) / 4) and found.categorical == pytest.approx(found.terms[2])
