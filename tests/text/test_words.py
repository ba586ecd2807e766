"""Plain text split into the words of tagged corpora."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.text.words import find_word, is_visible, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Albert is going to United States of America.", "Albert is going to United States of America ."),
        ("The U.S. and AT&T, at 10:30 (sharp)!", "The U.S. and AT&T , at 10:30 ( sharp ) !"),
        ("Dr. Who doesn't know Anna's dog", "Dr. Who does n't know Anna 's dog"),
        ("well-known e-mail: a@b.org", "well-known e-mail : a@b.org"),
        ("我爱北京", "我 爱 北 京"),
        ("he said ''go''...", "he said ' ' go ' ' . . ."),
        ("  \t\n ", ""),
        ("I \u2764\ufe0f NY", "I \u2764\ufe0f NY"),
        ("so good\u2764\ufe0f\U0001f44d\U0001f3fd!", "so good \u2764\ufe0f \U0001f44d\U0001f3fd !"),
        (
            "\U0001f468\u200d\U0001f469\u200d\U0001f467 at \U0001f1e9\U0001f1ea",
            "\U0001f468\u200d\U0001f469\u200d\U0001f467 at \U0001f1e9\U0001f1ea",
        ),
        ("a \ufe0f b \u200d\u200b", "a b"),
        ("\u845b\U000e0100\u57ce", "\u845b\U000e0100 \u57ce"),
    ],
)
def test_words_are_split_as_tagged_corpora_are(text, words):
    assert [text[start:end] for start, end in split_words(text)] == words.split()


@given(st.text())
def test_words_hold_everything_visible_in_order(text):
    spans = split_words(text)
    words = [text[start:end] for start, end in spans]
    assert "".join(filter(is_visible, "".join(words))) == "".join(filter(is_visible, "".join(text.split())))
    assert all(map(is_visible, words))
    assert all(start < end for start, end in spans)
    assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:], strict=False))


@pytest.mark.parametrize(
    ("text", "word", "found"),
    [
        ("A bank, the Bank and banks: bank", "bank", ["bank", "Bank", "bank"]),
        ("Apple and an apple", "Apple", ["Apple"]),
        ("riverbank bank2 _bank bank's bank-note", "bank", ["bank", "bank"]),
        ("cafe\u0301 cafe", "cafe", ["cafe"]),
        ("我去银行取钱", "银行", ["银行"]),
        ("in New York now", "new york", ["New York"]),
        ("a+b (c) a.b", "a.b", ["a.b"]),
        ("", "bank", []),
    ],
)
def test_a_word_is_found_whole_and_in_the_case_that_people_expect(text, word, found):
    assert [text[start:end] for start, end in find_word(text, word)] == found
