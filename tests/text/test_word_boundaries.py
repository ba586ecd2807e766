"""Words of a text, as answers begin and end with them: by example, and what holds for every text."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maskwright.text.words import whole_words, word_edges
from tasks.questions import cuts_a_word
from text.tokenizer_samples import any_text

EXAMPLES = {
    "in Central Park.": "in|Central|Park|.",
    "Newton's law, don't!": "Newton|'s|law|,|don't|!",
    "Christmas’s O’Brien’S": "Christmas|’s|O’Brien|’S",
    "3.5 tons, 1,000 ml, v2.": "3.5|tons|,|1,000|ml|,|v2|.",
    "U.S.A. e.g. J.K. Rowling": "U.S.A|.|e.g|.|J.K|.|Rowling",
    "the end.The next": "the|end|.|The|next",
    "(1895–1943) a_b state-of-the-art": "(|1895|–|1943|)|a_b|state|-|of|-|the|-|art",
    "'quoted' \"twice\"": "'|quoted|'|\"|twice|\"",
    "東京タワーは333m": "東|京|タ|ワ|ー|は|333m",
    "서울은 수도": "서|울|은|수|도",
    "น้ำดี": "น้ำ|ดี",
    "नमस्ते दुनिया": "नमस्ते|दुनिया",
    "cafe\u0301 naïve": "cafe\u0301|naïve",
    "می\u200cروم": "می\u200cروم",
    "wave 👋🏽!": "wave|👋🏽|!",
    "": "",
    " \n": "",
}


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in spans_of(text)]


def spans_of(text: str) -> list[tuple[int, int]]:
    edges = word_edges(text).tolist()
    return list(dict.fromkeys(tuple(edge) for edge, letter in zip(edges, text, strict=True) if not letter.isspace()))


@pytest.mark.parametrize("text", EXAMPLES)
def test_words_by_example(text):
    assert "|".join(words(text)) == EXAMPLES[text]


@given(text=any_text)
@example(text="a\u0301")
@example(text=" \u0301b")
def test_words_hold_every_character_but_white_space_and_none_is_cut(text):
    spans = spans_of(text)
    assert "".join(words(text)) == "".join(letter for letter in text if not letter.isspace())
    assert all(a < b <= c < d for (a, b), (c, d) in zip(spans, spans[1:], strict=False))
    assert not any(any(letter.isspace() for letter in word) for word in words(text))
    assert not any(cuts_a_word(text, place) for span in spans for place in span)


@given(text=any_text, data=st.data())
def test_growing_to_whole_words_is_the_least_that_holds_the_span(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    edges = word_edges(text)
    first, last = whole_words(edges, np.array([[start, end]]))[0].tolist()
    touched = [span for span in spans_of(text) if start < end and span[0] < end and span[1] > start]
    if touched:
        assert (first, last) == (touched[0][0], touched[-1][1])
        assert whole_words(edges, np.array([[first, last]]))[0].tolist() == [first, last]
    else:
        assert first >= last


def test_a_long_text_is_read_in_time():
    begin = time.perf_counter()
    assert len(word_edges("The old man's 3.5 tales (東京); " * 20_000)) == 600_000
    assert time.perf_counter() - begin < 10
