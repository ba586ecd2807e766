"""The steps that cut a word end where the tokenizers library ends, whatever the kind and the word."""

from __future__ import annotations

import json
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.text.tokenizers.explain import MAX_CHARACTERS, SegmentationTracer
from maskwright.text.tokenizers.tokenizer import Tokenizer

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


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(max_size=40))
def test_any_text_is_cut(kind, text):
    cutter(kind).cut(text)


def wordpiece(*pieces: str) -> SegmentationTracer:
    from maskwright.text.tokenizers.trainers import pipelines

    vocab = [*pipelines.SPECIAL_TOKENS, *pieces]
    return SegmentationTracer(Tokenizer(*pipelines.wordpiece(vocab, "wordpiece", True, {})))


def test_wordpiece_looks_for_the_longest_piece_first():
    steps = wordpiece("un", "u", "##bel", "##b", "##ievable").cut("unbelievable").words[0].steps
    assert [step.taken for step in steps] == ["un", "##bel", "##ievable"]
    assert steps[0].tried == ["unbelievable"[:end] for end in range(12, 2, -1)]
    assert steps[1].pieces == ["un", "##bel", "ievable"]
    assert steps[2].tried == []


def test_a_word_that_no_piece_fits_is_unknown_as_a_whole():
    word = wordpiece("un", "##be").cut("unbex").words[0]
    assert word.tokens == ["[UNK]"]
    assert word.steps[-1].taken is None and word.steps[-1].tried == ["##x"]


def test_merges_apply_in_the_order_in_which_they_were_learned():
    tokenizer = Tokenizer.train_from_iterator(
        iter(["old " * 7 + "older " * 3 + "finest " * 9 + "lowest " * 4]), kind="bpe", vocab_size=200, num_merges=5
    )
    word = SegmentationTracer(tokenizer).cut("oldest").words[0]
    assert [step.taken for step in word.steps] == [None, "es", "est", "est</w>", "ol", "old"]
    assert [step.rank for step in word.steps] == [None, 1, 2, 3, 4, 5]
    assert word.steps[-1].pieces == ["old", "est</w>"]


def test_kinds_without_steps_say_so_and_long_text_is_bounded():
    tokenizer = Tokenizer.train_from_iterator(iter(TEXTS), kind="char", vocab_size=60)
    cut = SegmentationTracer(tokenizer).cut("the " * 1000)
    assert cut.rule == "none" and len(cut.words) == MAX_CHARACTERS
    json.dumps(cut.to_json())
