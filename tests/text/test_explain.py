"""What is explained of tokenizers: merges, the steps of a word, and the comparison of kinds."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core import registry
from maskwright.core.errors import ConfigError, InputError
from maskwright.text.tokenizers import trainers
from maskwright.text.tokenizers.explain import (
    SegmentationTracer,
    compare,
    explain,
    measure,
    parse_words,
)
from maskwright.text.tokenizers.tokenizer import Tokenizer
from text.tokenizer_samples import CORPUS, LECTURE


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


@given(
    words=st.dictionaries(st.text(st.sampled_from("abc"), min_size=1, max_size=6), st.integers(1, 4), min_size=1),
    tie_break=st.sampled_from(["first", "last", "lexicographic"]),
)
def test_the_explanation_is_what_the_trainer_does(words, tie_break):
    explanation = explain(words, tie_break=tie_break, num_merges=8)
    learned = list(islice(trainers.learn_merges(words, tie_break), 8))
    assert explanation.merges == [(merge.left, merge.right) for merge in learned]
    best = [max(item.count for item in step.candidates) for step in explanation.steps]
    assert best == [merge.count for merge in learned]


@pytest.mark.parametrize("text", ["", "old", "old:", ":3", "old:x", "old:0", "old:-1", "o ld:3", "old:3,,new:1"])
def test_words_that_cannot_be_read_are_refused(text):
    with pytest.raises(InputError):
        parse_words(text)
    assert parse_words("a:b:3, c:1,c:2") == {"a:b": 3, "c": 3}


def test_what_cannot_be_explained_is_refused():
    with pytest.raises(ConfigError, match="can be explained"):
        explain(LECTURE, "word")
    with pytest.raises(ConfigError, match="tie_break"):
        explain(LECTURE, "wordpiece-score", tie_break="last")
    with pytest.raises(ConfigError, match="not valid"):
        explain(LECTURE, tie_break="random")


# -- the steps of a word --------------------------------------------------------------------------------


TEXTS = [
    "the taaaasty lantern is transformerified and the older lanterns are transformed",
    "lower lowest newest widest estimate old older oldest finest",
    "naïve café, 東京 – un-believable! aaaa aaa aa",
] * 3
KINDS = ["wordpiece", "wordpiece-score", "bpe", "byte-bpe"]


@cache
def cutter(kind: str) -> SegmentationTracer:
    return SegmentationTracer(
        Tokenizer.train_from_iterator(iter(TEXTS), kind=kind, vocab_size=320 if kind == "byte-bpe" else 110)
    )


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(st.sampled_from("aestlonwdr tf-é東!ÅA"), max_size=30))
def test_the_last_step_is_what_the_library_gives(kind, text):
    own = cutter(kind)
    cut = own.cut(text)
    tokens = own.tokenizer(text)
    inside = [token for token, source in zip(tokens.tokens, tokens.sequence_ids, strict=True) if source is not None]
    assert [token for word in cut.words for token in word.tokens] == inside
    for word in cut.words:
        unknown = own.tokenizer.special_tokens.get("unk")
        if unknown not in word.tokens:
            assert word.steps[-1].pieces == word.tokens


def test_merges_apply_in_the_order_in_which_they_were_learned():
    tokenizer = Tokenizer.train_from_iterator(
        iter(["old " * 7 + "older " * 3 + "finest " * 9 + "lowest " * 4]), kind="bpe", vocab_size=200, num_merges=5
    )
    word = SegmentationTracer(tokenizer).cut("oldest").words[0]
    assert [step.taken for step in word.steps] == [None, "es", "est", "est</w>", "ol", "old"]
    assert [step.rank for step in word.steps] == [None, 1, 2, 3, 4, 5]
    assert word.steps[-1].pieces == ["old", "est</w>"]


# -- comparison of kinds ---------------------------------------------------------------------------------


def write_corpus(folder, documents: list[list[str]]):
    path = folder / "corpus.txt"
    path.write_text("\n\n".join("\n".join(document) for document in documents), encoding="utf-8")
    return path


def test_a_new_word_is_unknown_to_words_and_spelled_by_pieces(tmp_path):
    """The affixes of old/older/oldest are learned in training and serve smart/smarter/smartest, never seen whole."""
    seen = ["old older oldest", "low lower lowest", "fine finer finest", "smart", "rest smar t a b"]
    documents = [[sentence for _ in range(3) for sentence in seen] for _ in range(9)] + [["smarter smartest older"]]
    comparison = compare(write_corpus(tmp_path, documents), 300)
    assert (comparison.unit, comparison.held_out_texts, comparison.held_out_words) == ("document", 1, 3)
    by_kind = {measures.name: measures for measures in comparison.measures}
    assert list(by_kind) == list(registry.names("tokenizer")) and not comparison.left_out
    assert by_kind["word"].unk_rate == pytest.approx(2 / 3) == by_kind["word"].unk_words
    assert by_kind["word"].tokens_per_word == 1 and by_kind["word"].affixes_shared is None
    for kind in ("char", "bpe", "byte-bpe", "wordpiece", "wordpiece-score"):
        assert by_kind[kind].unk_rate == 0
        assert by_kind[kind].affix_pieces > 0
        assert 1 < by_kind[kind].tokens_per_word <= by_kind["char"].tokens_per_word
    assert by_kind["wordpiece"].examples == {"smart": ["smarter", "smartest"]}


def test_the_measures_of_a_worked_text():
    tokenizer = Tokenizer.train_from_iterator(["ab ab ab abc c"], "wordpiece", 13)
    assert set(tokenizer.tokens[5:]) == {"a", "b", "c", "##a", "##b", "##c", "ab", "abc"}
    words = {"ab": 2, "ba": 1, "cab": 1, "x": 1}
    found = measure(tokenizer, "mine", ["ab ba", "ab cab x"], words)
    # ab | b ##a | ab | c ##a ##b | [UNK]
    assert found.tokens_per_word == pytest.approx(8 / 5)
    assert (found.unk_rate, found.unk_words) == (pytest.approx(1 / 8), pytest.approx(1 / 5))
    assert found.vocab_used == pytest.approx(5 / 8)  # ab b c ##a ##b
    assert (found.affix_pieces, found.affixes_shared) == (4, pytest.approx(1 / 4))  # only ##a serves two words


def test_what_cannot_be_compared_is_said(tmp_path):
    path = write_corpus(tmp_path, [[sentence] for sentence in CORPUS * 3])
    assert set(compare(path, 60).left_out) >= {"byte-bpe", "wordpiece"}
    with pytest.raises(ConfigError, match="too small"):
        compare(path, 60, ["byte-bpe"])
    with pytest.raises(ConfigError, match="Unknown tokenizer"):
        compare(path, 60, ["bytes"])
    with pytest.raises(InputError, match="at least 10 sentences"):
        compare(write_corpus(tmp_path, [["one"]]), 60)
    with pytest.raises(InputError, match="standard input"):
        compare("-", 60)
