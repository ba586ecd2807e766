"""BLEU that can be followed by hand is the number of sacrebleu."""

from __future__ import annotations

import random

import pytest

from maskwright.core.errors import InputError
from maskwright.lessons.parts import explain_bleu
from maskwright.tasks.translation import corpus_scores


def test_a_text_by_hand():
    found = explain_bleu(["the cat sat on the mat"], ["the cat sat on a mat"])
    assert (found.matches, found.rows) == ((5, 3, 2, 1), (6, 5, 4, 3))
    assert found.penalty == 1.0
    assert found.score == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_number_of_sacrebleu(seed: int):
    pytest.importorskip("sacrebleu")
    rng = random.Random(seed)
    wanted = [" ".join(rng.choices("abcd", k=rng.randint(5, 12))) for _ in range(20)]
    written = [" ".join(word for word in line.split() if rng.random() < 0.9) + " a" for line in wanted]
    assert explain_bleu(written, wanted).score == pytest.approx(corpus_scores(written, wanted)[0]["bleu"], abs=1e-9)


@pytest.mark.parametrize(("written", "wanted"), [([], []), (["a"], []), (["a"], ["a", "b"])])
def test_texts_without_their_references_are_refused(written, wanted):
    with pytest.raises(InputError, match="a reference for each text"):
        explain_bleu(written, wanted)
