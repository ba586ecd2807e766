"""The two losses of one prediction, and the masking of one sentence."""

from __future__ import annotations

import pytest

from maskwright.core.errors import InputError
from maskwright.lessons.parts import MASK, explain_loss, mask_words

WORDS = ["the", "man", "went", "to", "the", "store", "to", "buy", "a", "gallon", "of", "milk"]


def test_the_losses_of_the_lecture():
    found = explain_loss([0.6, 0.12, 0.18, 0.1], [0, 0, 1, 0])
    assert found.binary == pytest.approx(0.7161, abs=5e-5) and found.categorical == pytest.approx(1.7148, abs=5e-5)
    assert found.binary == pytest.approx(sum(found.terms) / 4) and found.categorical == pytest.approx(found.terms[2])


@pytest.mark.parametrize(
    ("probabilities", "target"),
    [([0.5, 0.6], [1, 0]), ([0.5, 0.5], [1, 1]), ([0.5, 0.5], [0, 0]), ([1.0, 0.0], [1, 0]), ([0.5, 0.5], [1, 0, 0])],
)
def test_invalid_probabilities_are_rejected(probabilities, target):
    with pytest.raises(InputError):
        explain_loss(probabilities, target)


def test_a_masked_sentence_tells_what_became_of_each_word():
    fates = {"masked": 0, "random": 0, "kept": 0}
    for seed in range(300):
        sequence = mask_words(WORDS, ("apple", "river"), seed)
        assert [one.original for one in sequence.tokens] == WORDS
        for one in sequence.tokens:
            if one.fate:
                fates[one.fate] += 1
            assert (one.shown == MASK) == (one.fate == "masked")
            assert (one.shown == one.original) == (one.fate in ("kept", ""))
    total = sum(fates.values())
    assert total / (300 * len(WORDS)) == pytest.approx(0.15, abs=0.02)
    assert fates["masked"] / total == pytest.approx(0.8, abs=0.06)
