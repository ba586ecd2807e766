"""Sentence boundaries: cases that people care about, and laws that hold for any text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.text.words import sentence_spans, split_sentences

CASES = [
    ("It rained. We stayed in.", ["It rained.", "We stayed in."]),
    ("Dr. Smith met Mrs. Jones at 3.14 p.m. on Monday.", ["Dr. Smith met Mrs. Jones at 3.14 p.m. on Monday."]),
    ("He left at 5 p.m. The shop was shut.", ["He left at 5 p.m.", "The shop was shut."]),
    ("J. R. R. Tolkien wrote it. It sold well.", ["J. R. R. Tolkien wrote it.", "It sold well."]),
    ("The U.S. Army came. It was in the U.S. The end.", ["The U.S. Army came.", "It was in the U.S.", "The end."]),
    ("See Fig. 3 and No. 5 of vol. 2.", ["See Fig. 3 and No. 5 of vol. 2."]),
    ("Is it so? No. It is not!", ["Is it so?", "No.", "It is not!"]),
    (
        "Bread, etc. are sold. Eggs, etc. The rest is not.",
        ["Bread, etc. are sold.", "Eggs, etc.", "The rest is not."],
    ),
    ('"Really?" she said. "Yes." Then silence.', ['"Really?" she said.', '"Yes."', "Then silence."]),
    ("He said (it was late.) We went... and came back.", ["He said (it was late.)", "We went... and came back."]),
    ("Visit example.org or mail a.b@c.de. Now!", ["Visit example.org or mail a.b@c.de.", "Now!"]),
    ("1. Open the box. 2. Close it.", ["1. Open the box.", "2. Close it."]),
    ("你好。再见！「好。」他说", ["你好。", "再见！", "「好。」", "他说"]),
    ("Она пришла. Он ушёл. Да?", ["Она пришла.", "Он ушёл.", "Да?"]),
    ("¿Qué? ¡Nada! Émile vint. Élan.", ["¿Qué?", "¡Nada!", "Émile vint.", "Élan."]),
    ("A first paragraph\n\nand a second one.", ["A first paragraph", "and a second one."]),
    ("Great!!! 🙂 Love it. 🎉", ["Great!!!", "🙂 Love it.", "🎉"]),
    ("🙂🙃", ["🙂🙃"]),
    ("", []),
    (" \n\t ", []),
]


@pytest.mark.parametrize(("text", "sentences"), CASES)
def test_sentences_end_where_a_reader_ends_them(text, sentences):
    assert split_sentences(text) == sentences


MARKS = [".", ".", "..", "!", "?", "…", "。", '"', "”", ")", "(", " ", " ", "\n", "\r\n", "\u2028", "\0"]
PIECES = st.sampled_from([*MARKS, "Dr", "U.S", "word", "Word", "3", "é", "中", "🙂", "etc"])


@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=40).map("".join)))
def test_sentences_are_the_text_in_order_without_the_space_between(text):
    spans = sentence_spans(text)
    assert [text[start:end] for start, end in spans] == split_sentences(text)
    position = 0
    for start, end in spans:
        assert not text[position:start].strip()
        assert text[start:end] == text[start:end].strip() != ""
        position = end
    assert not text[position:].strip()


@pytest.mark.parametrize(
    "pattern",
    ["A. ", "a.b", "U.S. ", "Dr. ", "x", "... "],
)
def test_time_is_linear_in_the_length(pattern):
    def seconds(length: int) -> float:
        text = pattern * (length // len(pattern))
        best = float("inf")
        for _ in range(3):
            start = time.thread_time()
            split_sentences(text)
            best = min(best, time.thread_time() - start)
        return best

    seconds(1000)
    assert seconds(160_000) < 0.05 + 24 * seconds(20_000)  # CPU time; linear is 8, quadratic is 64
