"""Words and sentences of a text: as tagged corpora split them, as answers begin and end, by script."""

import time

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maskwright.core.errors import InputError
from maskwright.text import segmenters
from maskwright.text.segmenters import find_segmenter, segment
from maskwright.text.words import (
    Sentence,
    find_word,
    is_visible,
    sentence_spans,
    split_sentences,
    split_words,
    whole_words,
    word_edges,
)
from tasks.questions import cuts_a_word
from text.tokenizer_samples import any_text


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


# -- Words of a text, as answers begin and end with them -------------------------------------------------------------

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


def words(text):
    return [text[start:end] for start, end in spans_of(text)]


def spans_of(text):
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


# -- Sentence boundaries ---------------------------------------------------------------------------------------------

CASES = [
    ("It rained. We stayed in.", ["It rained.", "We stayed in."]),
    ("Dr. Smith met Mrs. Jones at 3.14 p.m. on Monday.", ["Dr. Smith met Mrs. Jones at 3.14 p.m. on Monday."]),
    ("He left at 5 p.m. The shop was shut.", ["He left at 5 p.m.", "The shop was shut."]),
    ("J. R. R. Tolkien wrote it. It sold well.", ["J. R. R. Tolkien wrote it.", "It sold well."]),
    ("The U.S. Army came. It was in the U.S. The end.", ["The U.S. Army came.", "It was in the U.S.", "The end."]),
    ("See Fig. 3 and No. 5 of vol. 2.", ["See Fig. 3 and No. 5 of vol. 2."]),
    ("Is it so? No. It is not!", ["Is it so?", "No.", "It is not!"]),
    ("Bread, etc. are sold. Eggs, etc. The rest is not.", ["Bread, etc. are sold.", "Eggs, etc.", "The rest is not."]),
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


@pytest.mark.parametrize("pattern", ["A. ", "a.b", "U.S. ", "Dr. ", "x", "... "])
def test_time_is_linear_in_the_length(pattern):
    def seconds(length):
        text = pattern * (length // len(pattern))
        best = float("inf")
        for _ in range(3):
            start = time.thread_time()
            split_sentences(text)
            best = min(best, time.thread_time() - start)
        return best

    seconds(1000)
    assert seconds(160_000) < 0.05 + 24 * seconds(20_000)  # CPU time; linear is 8, quadratic is 64


# -- Segmenters ------------------------------------------------------------------------------------------------------


def rows(*texts):
    return [Sentence.of_words(text.split(), None, 1, "x") for text in texts]


def words_found(text, segmenter):
    return [text[start:end] for start, end in segment(text, segmenter)]


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        (["The dog ran , fast .", "Yes !"], "rules"),
        (["The dog ran, fast.", "Yes, it did!"], "spaces"),
        (["a b c", "d"], "rules"),
        (["我 爱 北 京", "他 在 上 海"], "rules"),
        (["我 在 2 0 1 8 年", "他 在 上 海"], "characters"),
        (["한 국 은 행", "서 울"], "characters"),
        (["한국 은행 은", "서울 에"], "rules"),
        (["สวัสดี ครับ ผม ชื่อ"], None),
        ([], "rules"),
    ],
)
def test_the_segmenter_is_the_one_that_finds_the_words(texts, name):
    assert find_segmenter(rows(*texts)).name == name


JAPANESE = ["田中 さん は 東京 に 住ん で い ます 。", "鈴木 さん は 大阪 大学 の 学生 です 。"]
CHINESE = ["我 爱 北京 天安门", "他 在 上海 工作 了 三 年"]


@pytest.mark.parametrize(("texts", "library"), [(JAPANESE, "fugashi"), (CHINESE, "jieba")])
def test_words_of_a_dictionary_need_its_library_or_must_be_given(texts, library, monkeypatch):
    monkeypatch.setattr(segmenters, "find_spec", lambda name: None)
    found = find_segmenter(rows(*texts))
    assert (found.name, found.missing) == (None, (library,))
    assert "predictions need words" in found.description and "maskwright[segmenters]" in found.description
    with pytest.raises(InputError, match="pass words"):
        segment("田中さん", found.name)


@pytest.mark.parametrize(
    ("modules", "texts", "library", "text", "expected"),
    [
        (["fugashi", "unidic_lite"], JAPANESE, "fugashi", "東京に住んでいます。", "東京 に 住ん で い ます 。"),
        (["jieba"], CHINESE, "jieba", "我在上海 工作", "我 在 上海 工作"),
    ],
)  # fmt: skip
def test_a_dictionary_finds_the_words_in_text(modules, texts, library, text, expected):
    for module in modules:
        pytest.importorskip(module)
    assert find_segmenter(rows(*texts)).name == library
    assert words_found(text, library) == expected.split()


def test_what_has_no_shape_is_no_word():
    assert words_found("我\ufe0f \u200b ❤\ufe0f\u200d🔥!", "characters") == ["我\ufe0f", "❤\ufe0f\u200d🔥", "!"]
    assert words_found("a \ufe0f b", "spaces") == ["a", "b"]
    assert words_found("แมว", "characters") == ["แ", "ม", "ว"]
