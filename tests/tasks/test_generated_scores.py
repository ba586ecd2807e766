"""BLEU, chrF and ROUGE are those of their packages, with the signature."""

from __future__ import annotations

import random
import sys

import pytest

from maskwright.core.errors import InputError, MissingExtraError
from maskwright.lessons.parts import explain_bleu
from maskwright.tasks.generation import rouge_scores
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


# -- ROUGE is that of rouge-score, with its signature ----------------------------------------------------------------


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


def test_a_missing_scorer_of_summaries_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'maskwright\[translation\]'"):
        rouge_scores(["a"], ["b"])


# -- BLEU that can be followed by hand is the number of sacrebleu ----------------------------------------------------


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
