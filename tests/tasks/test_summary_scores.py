"""ROUGE is that of rouge-score, with its signature."""

from __future__ import annotations

import sys

import pytest

from maskwright.core.errors import MissingExtraError
from maskwright.tasks.generation import rouge_scores


def test_rouge_is_the_number_computed_by_hand():
    """Of three written words two are right, and two of four are found; the pair of them too, of two and of three."""
    pytest.importorskip("rouge_score", reason="rouge-score is not installed (extra translation)")
    scores, signatures = rouge_scores(["the cat sat", "a dog"], ["the cat ran away", "a dog"])
    assert scores["rouge1"] == pytest.approx((2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4) + 1) / 2)
    assert scores["rouge2"] == pytest.approx((2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3) + 1) / 2)
    assert scores["rougeL"] == pytest.approx(scores["rouge1"])
    assert "F1" in signatures["rouge"] and "any script" in signatures["rouge"]


PERFECT = [
    "die Straße führt über die Brücke",
    "naïve café",
    "Это кошка",
    "猫が 好き",
    "日本語の文章です",
    "مرحبا بالعالم",
    "नमस्ते दुनिया",
    "ภาษาไทย",
    "한국어 문장",
]


@pytest.mark.parametrize("text", PERFECT)
@pytest.mark.compatibility(
    "rouge_score 0.1.2",
    theirs="Words are runs of a to z and 0 to 9: a perfect text in another script scores 0, one with umlauts fragments",
    ours="Words of any script, characters in scripts without spaces; ASCII texts score the same",
)
def test_a_perfect_text_of_any_script_has_rouge_1(text):
    pytest.importorskip("rouge_score", reason="rouge-score is not installed (extra translation)")
    assert rouge_scores([text], [text])[0] == {"rouge1": 1.0, "rouge2": 1.0, "rougeL": 1.0}


@pytest.mark.parametrize(
    ("written", "wanted", "unigrams"),
    [
        ("Mädchen Männer", "Mönche Märchen", 0.0),  # a to z alone: the fragment m is in all four
        ("Cafe\u0301 NOIR", "café noir", 1.0),
        ("ﬁne Ｈｅｌｌｏ", "fine hello", 1.0),
        ("猫が好き", "犬が好き", 0.75),
        ("snake_case", "snake case", 1.0),
    ],
)
def test_words_are_compared_whole(written, wanted, unigrams):
    pytest.importorskip("rouge_score", reason="rouge-score is not installed (extra translation)")
    assert rouge_scores([written], [wanted])[0]["rouge1"] == pytest.approx(unigrams)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("O'Neill's 3.5 % gain, in the U.S.", "o neill gained 3.5% in the US"),
        ("A_b-C (d) e/f", "a b c d e f"),
        ("tabs\tand\x0blines\nhere", "tabs and lines here, too"),
    ],
)
def test_ascii_scores_are_those_of_the_package(written, wanted):
    scorer = pytest.importorskip("rouge_score.rouge_scorer", reason="rouge-score is not installed")
    theirs = scorer.RougeScorer(["rouge1", "rouge2", "rougeL"]).score(wanted, written)
    assert rouge_scores([written], [wanted])[0] == {name: one.fmeasure for name, one in theirs.items()}


def test_references_without_words_or_pairs_are_counted(capsys):
    pytest.importorskip("rouge_score", reason="rouge-score is not installed (extra translation)")
    assert rouge_scores(["yes", "!", "a dog"], ["yes", "!", "a dog"])[0]["rouge2"] == pytest.approx(1 / 3)
    err = capsys.readouterr().err
    assert "1 of 3 references without a letter" in err and "1 of 3 references of one word" in err


def test_a_missing_scorer_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'maskwright\[translation\]'"):
        rouge_scores(["a"], ["b"])
