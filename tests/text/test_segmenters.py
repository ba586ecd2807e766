"""Segmenters: the one that finds the words of training data, and what it makes of text."""

from __future__ import annotations

import pytest

from maskwright.core.errors import InputError
from maskwright.text import segmenters
from maskwright.text.segmenters import find_segmenter, segment
from maskwright.text.words import Sentence


def rows(*texts):
    return [Sentence.of_words(text.split(), None, 1, "x") for text in texts]


def words(text, segmenter):
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
    assert words(text, library) == expected.split()


def test_what_has_no_shape_is_no_word():
    assert words("我\ufe0f \u200b ❤\ufe0f\u200d🔥!", "characters") == ["我\ufe0f", "❤\ufe0f\u200d🔥", "!"]
    assert words("a \ufe0f b", "spaces") == ["a", "b"]
    assert words("แมว", "characters") == ["แ", "ม", "ว"]
