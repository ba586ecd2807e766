"""What holds for every tokenizer, whatever trained it."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.core.errors import (
    InputError,
)
from maskwright.text.tokenizers.encoding import TextCounts
from maskwright.text.tokenizers.tokenizer import Tokenizer
from text.tokenizer_samples import CORPUS, KINDS, any_text, trained

every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
@given(text=any_text, pair=st.none() | any_text)
@settings(max_examples=40)
def test_any_text_is_encoded_and_every_token_points_into_it(kind, text, pair):
    encoding = trained(kind)(text, pair)
    lists = (encoding.tokens, encoding.offsets, encoding.type_ids, encoding.special_tokens_mask, encoding.word_ids)
    assert all(len(entries) == len(encoding.ids) == len(encoding) for entries in lists)
    assert all(0 <= id < trained(kind).vocab_size for id in encoding.ids)
    for (start, end), which in zip(encoding.offsets, encoding.sequence_ids, strict=True):
        if which is not None:
            assert 0 <= start <= end <= len((text, pair)[which])


@every_kind
def test_the_frame_is_cls_a_sep_b_sep_with_types_0_and_1(kind):
    tokenizer = trained(kind)
    assert [tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id] == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert tokenizer.special_ids == {0, 1, 2, 3, 4}
    encoding = tokenizer("old man", "the road")
    seps = [index for index, token in enumerate(encoding.tokens) if token == "[SEP]"]
    assert encoding.tokens[0] == "[CLS]" and len(seps) == 2 and seps[1] == len(encoding) - 1
    assert encoding.type_ids == [0] * (seps[0] + 1) + [1] * (len(encoding) - seps[0] - 1)
    assert encoding.sequence_ids == [None] + [0] * (seps[0] - 1) + [None] + [1] * (seps[1] - seps[0] - 1) + [None]


@every_kind
@given(
    texts=st.lists(st.one_of(any_text, st.tuples(any_text, any_text)), max_size=5),
    max_length=st.none() | st.integers(3, 20),
)
@settings(max_examples=40)
def test_the_fast_path_gives_the_ids_of_the_full_one(kind, texts, max_length):
    tokenizer = trained(kind)
    encodings = tokenizer.encode_batch(texts, max_length)
    counts = TextCounts()
    ids, types = tokenizer.encode_ids(texts, max_length, counts=counts)
    assert ids == [encoding.ids for encoding in encodings]
    assert types == [encoding.type_ids for encoding in encodings]
    assert counts.cut_tokens == sum(encoding.num_truncated for encoding in encodings)
    assert counts.unknown_tokens == sum(encoding.num_unknown for encoding in encodings)
    assert counts.tokens == sum(map(len, encodings)) and counts.texts == len(texts)


@every_kind
def test_saved_and_loaded_it_is_the_same_to_the_byte(kind, tmp_path):
    tokenizer = trained(kind)
    tokenizer.save(tmp_path / "tok")
    loaded = Tokenizer.load(tmp_path / "tok")
    assert loaded.files() == tokenizer.files()
    assert loaded.kind == kind and loaded.facts == tokenizer.facts
    assert loaded.special_tokens == tokenizer.special_tokens
    assert [e.ids for e in loaded.encode_batch(CORPUS)] == [e.ids for e in tokenizer.encode_batch(CORPUS)]


def test_a_fresh_process_trains_the_same_files_and_encodes_the_same_ids(tmp_path):
    for kind in KINDS:
        trained(kind).save(tmp_path / kind)
    code = (
        "import sys, json; sys.path.insert(0, 'tests'); from text.tokenizer_samples import CORPUS, KINDS, trained\n"
        "from maskwright.text.tokenizers.tokenizer import Tokenizer\n"
        "for kind in KINDS:\n"
        f"    loaded, again = Tokenizer.load({str(tmp_path)!r} + '/' + kind), trained(kind)\n"
        "    print(json.dumps([loaded.files() == again.files(), [e.ids for e in loaded.encode_batch(CORPUS)]]))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for kind, line in zip(KINDS, out.splitlines(), strict=True):
        same_files, ids = json.loads(line)
        assert same_files, kind
        assert ids == [encoding.ids for encoding in trained(kind).encode_batch(CORPUS)]


@pytest.mark.parametrize("text", ["\ud800", "fine \udfff", "a\udc80b"])
def test_a_lone_surrogate_is_refused_in_words(text):
    tokenizer = trained("wordpiece")
    for call in (
        lambda: tokenizer(text),
        lambda: tokenizer("first", text),
        lambda: tokenizer.encode_plain(["ok", text]),
        lambda: tokenizer.batch(["ok", text]),
        lambda: Tokenizer.train_from_iterator(["ok", text], "word", 100),
        lambda: Tokenizer.train_from_iterator(["ok", text], "byte-bpe", 300),
    ):
        with pytest.raises(InputError, match="lone surrogate"):
            call()


@pytest.mark.parametrize("texts", [[None], [3], [float("nan")], [("a", None)], [("a", "b", "c")], [b"bytes"], "one"])
def test_what_is_not_text_is_refused_in_words(texts):
    for call in (trained("wordpiece").encode_batch, trained("wordpiece").batch):
        with pytest.raises(InputError):
            call(texts)


def test_texts_may_come_in_any_container():
    tokenizer, texts = trained("wordpiece"), ["the old man", "a story"]
    expected = tokenizer.encode_ids(texts)
    for container in (np.array(texts), pd.Series(texts, index=[7, 9]), tuple(texts), iter(texts)):
        assert tokenizer.encode_ids(container) == expected
    pairs = [("the old", "man"), ("a", "story")]
    expected = tokenizer.encode_ids(pairs)
    assert tokenizer.encode_ids(pd.DataFrame(pairs, columns=["text", "text_pair"])) == expected
    assert tokenizer.encode_ids(np.array(texts)[:, None]) == tokenizer.encode_ids(texts)
    for table in (np.array(pairs), pd.DataFrame(pairs, columns=["a", "b"])):  # which text is the first is not said
        with pytest.raises(InputError, match="neither texts nor text pairs. Rename the columns to 'text'"):
            tokenizer.encode_ids(table)


def test_cut_and_unknown_tokens_are_counted_and_said():
    tokenizer = trained("word")
    encoding = tokenizer("the old man zzz yyy", max_length=5)
    assert (encoding.num_truncated, encoding.num_unknown, len(encoding)) == (2, 0, 5)
    assert tokenizer("the zzz yyy").num_unknown == 2
    counts = TextCounts()
    tokenizer.batch(["the old man zzz yyy", "zzz"], max_length=5, counts=counts)
    assert counts == TextCounts(texts=2, tokens=8, cut_texts=1, cut_tokens=2, unknown_tokens=1, special_tokens=4)
    assert "1 of 2 texts was truncated (2 tokens removed)" in counts.note() and "1 of 8 tokens" in counts.note()
    assert TextCounts(texts=3, tokens=9).note() == ""


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_length": 2}, "is too small"),
        ({"max_length": 4, "truncation": "middle"}, "not valid"),
        ({"max_length": 8, "truncation": "only_first"}, "second text by itself"),
        ({"max_length": 8, "stride": 3}, "stride"),
        ({"padding": "max_length"}, "needs max_length"),
        ({"padding": "yes"}, "not valid"),
        ({"padding_side": "top"}, "not valid"),
    ],
)
def test_impossible_wishes_are_refused_in_words(options, error):
    with pytest.raises(InputError, match=error):
        trained("word")("the old man", "she walked along the lowest road slowly", **options)
    with pytest.raises(InputError, match="needs a second text"):
        trained("word")("the old man walked", max_length=4, truncation="only_second")


def test_padding_fills_a_rectangle_at_either_side():
    tokenizer = trained("word")
    right = tokenizer.encode_batch(["the old man", "the"], padding="longest")
    left = tokenizer.encode_batch(["the old man", "the"], padding=True, padding_side="left")
    assert [len(encoding) for encoding in right] == [5, 5]
    assert right[1].tokens == ["[CLS]", "the", "[SEP]", "[PAD]", "[PAD]"]
    assert left[1].tokens == ["[PAD]", "[PAD]", "[CLS]", "the", "[SEP]"]
    assert left[1].attention_mask == [0, 0, 1, 1, 1] and right[1].special_tokens_mask == [1, 0, 1, 1, 1]


def test_a_foreign_folder_gives_its_special_tokens_and_loses_what_would_run_code(tmp_path):
    vocab = ["<pad>", "<unk>", "<s>", "</s>", "<mask>", "hello", "##s"]
    (tmp_path / "vocab.txt").write_text("\n".join(vocab), encoding="utf-8")
    config = {"cls_token": {"content": "<s>"}, "sep_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps(config | {"mask_token": "<mask>", "auto_map": {"AutoTokenizer": "evil.py"}}), encoding="utf-8"
    )
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer("hellos <mask> what").tokens == ["<s>", "hello", "##s", "<mask>", "<unk>", "</s>"]
    assert (tokenizer.cls_id, tokenizer.mask_id, tokenizer.kind) == (2, 4, "wordpiece")
    assert b"auto_map" not in b"".join(tokenizer.files().values())
    assert Tokenizer.load(tmp_path / "vocab.txt")("hellos").ids == tokenizer("hellos").ids


@pytest.mark.parametrize("tokens, found", [(["A", "C"], ["A", "C"]), (["A", "C", "a"], ["a", "[UNK]"])])
def test_a_vocabulary_without_lower_case_is_not_lower_cased(tokens, found, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *tokens]))
    assert Tokenizer.load(tmp_path)("A C").tokens == ["[CLS]", *found, "[SEP]"]


@pytest.mark.parametrize("kind", ["wordpiece", "byte-bpe", "bpe", "char"])
def test_word_starts_find_the_words_of_a_text(kind):
    tokenizer = trained(kind)
    text = "the oldest learners unlearned slowly"
    ids = tokenizer(text).ids
    starts = tokenizer.word_starts(ids)
    words = np.split(np.array(ids), np.flatnonzero(starts)[1:])
    found = [tokenizer.decode(word.tolist()).strip() for word in words[1:-1]]
    assert [word for word in found if word] == text.split()
    assert len(words) < len(ids)


def test_continuing_pieces_are_those_with_the_prefix():
    tokenizer = trained("wordpiece")
    expected = [token.startswith("##") for token in tokenizer.tokens]
    assert tokenizer.continues_word().tolist() == expected and any(expected)
    assert not trained("word").continues_word().any()
    for kind in ("bpe", "char"):
        with pytest.raises(InputError, match="does not show"):
            trained(kind).continues_word()
