"""BLEU and chrF are those of sacrebleu, with its signature."""

from __future__ import annotations

import sys

import pytest

from maskwright.core.errors import MissingExtraError
from maskwright.tasks.translation import corpus_scores


def test_bleu_is_the_number_computed_by_hand():
    """5 of 6 words, 3 of 5 pairs, 2 of 4 triples and 1 of 3 rows of four are right, and no text is too short."""
    pytest.importorskip("sacrebleu")
    scores, signatures = corpus_scores(["the cat sat on the mat"], ["the cat sat on a mat"])
    assert scores["bleu"] == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25, abs=0.01)
    assert 0 < scores["chrf"] < 100
    assert "tok:13a" in signatures["bleu"] and "version:" in signatures["bleu"] and "nc:6" in signatures["chrf"]


@pytest.mark.parametrize(
    ("texts", "settings"),
    [
        (["guten Morgen", "ja"], "eff:yes|tok:13a"),
        (["guten Morgen, liebe Leute", "ja"], "eff:no|tok:13a"),
        (["我喜欢猫。", "他不喜欢。"], "eff:no|tok:zh"),
        (["猫が好きです"], "eff:no|tok:char"),
        (["ภาษาไทย"], "eff:no|tok:char"),
        (["猫が"], "eff:yes|tok:char"),
        (["나는 고양이를 좋아한다 정말로"], "eff:no|tok:13a"),
    ],
)
@pytest.mark.compatibility(
    "sacrebleu 2.6.0",
    theirs="BLEU of perfect texts under four tokens is 0, and a sentence without spaces is one token",
    ours="Effective order if no reference has four tokens, characters without spaces; said, and in the signature",
)
def test_perfect_texts_have_bleu_100_and_the_settings_are_said(texts, settings, capsys):
    pytest.importorskip("sacrebleu")
    scores, signatures = corpus_scores(texts, texts)
    assert scores["bleu"] == pytest.approx(100) and scores["chrf"] == pytest.approx(100)
    assert settings in signatures["bleu"]
    err = capsys.readouterr().err
    assert ("No reference has 4 words" in err) == ("eff:yes" in settings)
    assert ("no spaces between words" in err) == ("13a" not in settings)


def test_short_translations_of_long_references_still_score_0(capsys):
    pytest.importorskip("sacrebleu")
    scores, signatures = corpus_scores(["the cat"], ["the cat sat on the mat"])
    assert scores["bleu"] == 0 and "eff:no" in signatures["bleu"] and capsys.readouterr().err == ""


def test_a_missing_scorer_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'maskwright\[translation\]'"):
        corpus_scores(["a"], ["b"])
