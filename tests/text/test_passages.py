"""Passages are stretches of their source: every character but whitespace, in order, within the limit."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.samples import TEXTS, tokenizer
from maskwright.text.readers.corpus import MAX_PARAGRAPH, bad_rows_of, cut, read_passages
from maskwright.text.tokenizers.tokenizer import Tokenizer

WORST = (
    "\ufeffÜber naïve cafés: e\u0301toile. 🙂 👩‍👩‍👧 are here!\r\n"
    "Zweite Zeile\u2028mit Trennern\x85und mehr.\n"
    "\r\n"
    "日本語の文です。二つ目の文。\n"
    " \t\u00a0\n"
    "العربية نص. \u202eabc\u202c\n\n\n"
    "last one without an end"
)


def passages(path: Path, max_tokens: int, **options):
    return list(read_passages(str(path), tokenizer(), max_tokens, **options))


@pytest.mark.parametrize("max_tokens", [1, 3, 8, 100])
def test_a_span_is_the_sources_characters_whatever_they_are(tmp_path: Path, max_tokens: int):
    path = tmp_path / "worst.txt"
    path.write_bytes(WORST.encode("utf-8"))
    source = path.read_bytes().decode("utf-8")
    found = passages(path, max_tokens)
    assert all(source[one.start : one.end] == one.text for one in found)
    assert all(source.count("\n", 0, one.start) + 1 == one.line for one in found)
    assert "".join("".join(one.text for one in found).split()) == "".join(source.removeprefix("\ufeff").split())
    ends = [(one.start, one.end) for one in found]
    assert ends == sorted(ends) and all(one[1] <= other[0] for one, other in zip(ends, ends[1:], strict=False))


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=120), st.integers(1, 9))
def test_segmentation_loses_no_character(text: str, max_tokens: int):
    spans = cut(text, tokenizer(), max_tokens)
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())


@given(st.lists(st.sampled_from(" ".join(TEXTS).split()), max_size=40), st.integers(9, 20))
def test_no_passage_is_longer_than_the_limit_and_no_word_is_cut(words: list[str], max_tokens: int):
    text = " ".join(words)
    pieces = [text[start:end] for start, end in cut(text, tokenizer(), max_tokens)]
    assert all(len(ids) <= max_tokens for ids in tokenizer().encode_plain(pieces))
    longest = max((len(ids) for ids in tokenizer().encode_plain(words)), default=0)
    assert longest > max_tokens or " ".join(pieces) == text


def test_sentences_are_joined_while_they_fit():
    words = Tokenizer.train_from_iterator(iter(TEXTS), kind="word", vocab_size=100)
    text = "the cat sat . The dog . A mat was there on the floor . Rain ."
    assert [text[start:end] for start, end in cut(text, words, 8)] == [
        "the cat sat . The dog .",
        "A mat was there on the floor .",
        "Rain .",
    ]
    assert len(cut(text, words, 100)) == 1
    assert [text[start:end] for start, end in cut(text, words, 3)][:3] == ["the cat sat", ".", "The dog ."]


def test_paragraphs_are_apart_and_a_giant_one_is_bounded(tmp_path: Path):
    path = tmp_path / "two.txt"
    path.write_text("the cat\nsat .\n\nrain fell\n", encoding="utf-8")
    assert [one.text for one in passages(path, 100)] == ["the cat\nsat .", "rain fell"]
    path.write_text("the cat sat .\n" * (3 * MAX_PARAGRAPH // 14), encoding="utf-8")
    assert max(len(one.text) for one in passages(path, 10**9)) <= MAX_PARAGRAPH


def test_rows_of_tables_are_paragraphs_with_their_line(tmp_path: Path):
    rows = [{"text": "the cat sat ."}, {"text": "rain\nfell"}]
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    assert [(one.text, one.line, one.start) for one in passages(path, 100)] == [
        ("the cat sat .", 1, 0),
        ("rain\nfell", 2, 0),
    ]
    table = tmp_path / "rows.csv"
    table.write_text("id,body\n1,the cat\n2,\n", encoding="utf-8")
    assert [one.text for one in passages(table, 100, text_field="body")] == ["the cat"]
    assert [error.line for error in bad_rows_of(str(table), "body")] == [3]
