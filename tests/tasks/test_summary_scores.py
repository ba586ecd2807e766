"""ROUGE is that of rouge-score, with its signature."""

from __future__ import annotations

import sys

import pytest

from maskwright.core.errors import MissingExtraError
from maskwright.tasks.generation.scores import rouge_scores


def test_rouge_is_the_number_computed_by_hand():
    """Of three written words two are right, and two of four are found; the pair of them too, of two and of three."""
    pytest.importorskip("rouge_score", reason="rouge-score is not installed (extra translation)")
    scores, signatures = rouge_scores(["the cat sat", "a dog"], ["the cat ran away", "a dog"])
    assert scores["rouge1"] == pytest.approx((2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4) + 1) / 2)
    assert scores["rouge2"] == pytest.approx((2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3) + 1) / 2)
    assert scores["rougeL"] == pytest.approx(scores["rouge1"])
    assert "F1" in signatures["rouge"]


def test_a_missing_scorer_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'maskwright\[translation\]'"):
        rouge_scores(["a"], ["b"])
