"""The step tables, number for number as the lecture works them out."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError, InputError
from maskwright.text.tokenizers.explain import (
    encode_steps,
    explain,
    format_subwords,
    join_subwords,
    parse_words,
    render,
    subwords_by_word,
)
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.text.tokenizers.trainers import bpe
from text.tokenizer_samples import LECTURE, trained


def test_the_first_table_has_the_lectures_twelve_counts_in_its_order():
    first = explain(LECTURE, num_merges=0).start
    assert list(first.items()) == [
        ("</w>", 23),
        ("o", 14),
        ("l", 14),
        ("d", 10),
        ("e", 16),
        ("r", 3),
        ("f", 9),
        ("i", 9),
        ("n", 9),
        ("s", 13),
        ("t", 13),
        ("w", 4),
    ]


def test_every_step_changes_the_counts_that_the_lecture_changes():
    steps = explain(LECTURE, num_merges=5).steps
    assert [(step.merged, step.winner.count, step.changes) for step in steps] == [
        ("es", 13, (("e", 16, 3), ("s", 13, 0), ("es", 0, 13))),
        ("est", 13, (("es", 13, 0), ("t", 13, 0), ("est", 0, 13))),
        ("est</w>", 13, (("est", 13, 0), ("</w>", 23, 10), ("est</w>", 0, 13))),
        ("ol", 10, (("o", 14, 4), ("l", 14, 4), ("ol", 0, 10))),
        ("old", 10, (("ol", 10, 0), ("d", 10, 0), ("old", 0, 10))),
    ]
    tied = [[f"{item.left} {item.right}" for item in step.tied] for step in steps]
    assert tied == [["s t", "t </w>"], ["t </w>"], [], ["l d"], []]


def test_wordpiece_shows_the_score_of_every_pair():
    step = explain(LECTURE, "wordpiece-score", num_merges=1).steps[0]
    assert (step.merged, step.winner.score) == ("lo", Fraction(1, 4))
    assert [(item.left, item.right) for item in step.tied] == [("##o", "##w")]
    scores = {(item.left, item.right): item.score for item in step.candidates}
    assert scores["##e", "##s"] == Fraction(13, 16 * 13) and scores["o", "##l"] == Fraction(10, 100)
    assert [item.score for item in step.candidates] == sorted(scores.values(), reverse=True)


def test_the_text_shows_the_subtractions_ties_and_final_words():
    text = render(explain(LECTURE, num_merges=5))
    for line in (
        "12 symbols: </w> 23, o 14, l 14, d 10, e 16, r 3, f 9, i 9, n 9, s 13, t 13, w 4",
        "e                16 - 13 = 3",
        "</w>             23 - 13 = 10",
        "old              10 (new)",
        "Tie with s t, t </w>: the pair seen first in the corpus wins.",
        "Merges in order: es, est, est</w>, ol, old",
        "finest       f i n est</w>",
    ):
        assert line in text
    assert "4 / (4 * 4) = 0.25" in render(explain(LECTURE, "wordpiece-score", num_merges=1))


def test_encoding_is_shown_merge_by_merge():
    merges = explain(LECTURE, num_merges=5).merges
    states = encode_steps("oldest", merges)
    assert states[0] == [*"oldest", "</w>"] and states[-1] == ["old", "est</w>"]
    assert all(len(after) < len(before) for before, after in zip(states, states[1:], strict=False))
    assert "est</w>" not in encode_steps("estimate", merges)[-1]


@given(
    words=st.dictionaries(st.text(st.sampled_from("abc"), min_size=1, max_size=6), st.integers(1, 4), min_size=1),
    tie_break=st.sampled_from(["first", "last", "lexicographic"]),
)
def test_the_explanation_is_what_the_trainer_does(words, tie_break):
    explanation = explain(words, tie_break=tie_break, num_merges=8)
    learned = list(islice(bpe.learn_merges(words, tie_break), 8))
    assert explanation.merges == [(merge.left, merge.right) for merge in learned]
    best = [max(item.count for item in step.candidates) for step in explanation.steps]
    assert best == [merge.count for merge in learned]


def test_both_limits_stop_where_they_say():
    assert len(explain(LECTURE, vocab_size=14).steps) == 2
    assert "14 symbols" in explain(LECTURE, vocab_size=14, num_merges=9).stopped
    assert "9 merges" in explain(LECTURE, vocab_size=99, num_merges=9).stopped
    assert explain({"ab": 1}).stopped == "no pair is left"


@pytest.mark.parametrize("text", ["", "old", "old:", ":3", "old:x", "old:0", "old:-1", "o ld:3", "old:3,,new:1"])
def test_words_that_cannot_be_read_are_refused(text):
    with pytest.raises(InputError):
        parse_words(text)


def test_words_may_hold_colons_and_repeat():
    assert parse_words("a:b:3, c:1,c:2") == {"a:b": 3, "c": 3}


def test_what_cannot_be_explained_is_refused():
    with pytest.raises(ConfigError, match="can be explained"):
        explain(LECTURE, "word")
    with pytest.raises(ConfigError, match="tie_break"):
        explain(LECTURE, "wordpiece-score", tie_break="last")
    with pytest.raises(ConfigError, match="not valid"):
        explain(LECTURE, tie_break="random")


def test_pieces_are_shown_with_marks_on_either_side():
    assert join_subwords(["taa", "aaa", "sty"], "left") == "taa## aaa## sty"
    assert join_subwords(["taa", "aaa", "sty"]) == "taa ##aaa ##sty"
    tokenizer = Tokenizer.train_from_iterator(["la laern transformer ify ern ern la la transformer"], "wordpiece", 70)
    ids = tokenizer.encode_plain(["laern [MASK] Transformer"])[0]
    assert format_subwords(tokenizer, ids, "left").replace("## ", "").split() == ["laern", "[MASK]", "transformer"]
    assert format_subwords(tokenizer, ids).replace(" ##", "") == "laern [MASK] transformer"


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "byte-bpe"])
def test_every_kind_shows_its_pieces_without_marks(kind):
    tokenizer = trained(kind)
    words = subwords_by_word(tokenizer, tokenizer.encode_plain(["the oldest learners unlearned"])[0])
    assert ["".join(pieces) for pieces in words] == ["the", "oldest", "learners", "unlearned"]
    assert any(len(pieces) > 1 for pieces in words)
