"""BLEU and chrF are those of sacrebleu, with its signature."""

from __future__ import annotations

import sys

import pytest

from maskwright.core.errors import MissingExtraError
from maskwright.tasks.translation.scores import corpus_scores


def test_bleu_is_the_number_computed_by_hand():
    """5 of 6 words, 3 of 5 pairs, 2 of 4 triples and 1 of 3 rows of four are right, and no text is too short."""
    pytest.importorskip("sacrebleu")
    scores, signatures = corpus_scores(["the cat sat on the mat"], ["the cat sat on a mat"])
    assert scores["bleu"] == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25, abs=0.01)
    assert 0 < scores["chrf"] < 100
    assert "tok:13a" in signatures["bleu"] and "version:" in signatures["bleu"] and "nc:6" in signatures["chrf"]


def test_a_missing_scorer_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'maskwright\[translation\]'"):
        corpus_scores(["a"], ["b"])
