"""Hostile tokenizers are rejected before they are used; those of published models load without a second process."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

import maskwright as mw
from maskwright.core.errors import CorruptFileError, InputError, ModelFolderError
from maskwright.text.tokenizers import check as tokenizer_check
from maskwright.text.tokenizers.check import check_replacements
from maskwright.text.tokenizers.sentencepiece import read_pieces
from text.sentencepiece_samples import trained

WORDS = {"[UNK]": 0, "a": 1, "e": 2, "##a": 3}
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def chain(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


def split(pattern, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": "Isolated", "invert": False}


def template(single, special=None):
    return {"type": "TemplateProcessing", "special_tokens": special or {}, "pair": [], "single": single}


def charsmap(replacement):
    return base64.b64encode(struct.pack("<I", 4) + bytes(4) + replacement + b"\0").decode()


def write(folder, **changes):
    content = json.loads(Backend(models.WordLevel(WORDS, unk_token="[UNK]")).to_str())
    (folder / "tokenizer.json").write_text(json.dumps(content | changes), encoding="utf-8")
    return folder


FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
ADDED = {"id": 9, "content": "z" * 2000} | dict.fromkeys(FLAGS, False)
WORDPIECE = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "vocab": WORDS}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
NESTED: dict[str, Any] = {"type": "Lowercase"}
for _ in range(30):
    NESTED = chain(NESTED)
HOSTILE = {
    "a normalizer that doubles e 40 times": ({"normalizer": chain(*[replace("e", "ee")] * 40)}, "as long"),
    "the empty text by 20 letters": ({"normalizer": chain(*[replace("", "x" * 20)] * 8)}, "empty text"),
    "the empty pattern": ({"normalizer": replace("", "x", "Regex")}, "empty text"),
    "what matches nothing, many times": ({"normalizer": chain(*[replace("x*", "yy", "Regex")] * 20)}, "as long"),
    "a letter by a long text": ({"normalizer": replace("e", "x" * 5000)}, "as long"),
    "bytes of bytes": ({"normalizer": chain(*[{"type": "ByteLevel"}] * 30)}, "as long"),
    "bytes of bytes, split": ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTES] * 30}}, "as long"),
    "a decoder that doubles": ({"decoder": {"type": "Sequence", "decoders": [replace("e", "ee")] * 40}}, "as long"),
    "half in each": (
        {
            "normalizer": chain(*[replace("e", "e" * 40)] * 1),
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTES] * 6},
        },
        "as long",
    ),
    "a table with a long text": (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap(b"x" * 5000)}},
        "as long",
    ),
    "retry-limit": ({"normalizer": chain(*[{"type": "Lowercase"}] * 65)}, "more than 64 steps"),
    "sequences in sequences": ({"normalizer": NESTED}, "nested too deeply"),
    "a long prefix": ({"normalizer": {"type": "Prepend", "prepend": "x" * 100}}, "to a text"),
    "parts of length 0": ({"pre_tokenizer": {"type": "FixedLength", "length": 0}}, "length 0"),
    "an exponential pattern": ({"pre_tokenizer": split(r"(a+)+$")}, "retry-limit|was stopped"),
    "a quadratic pattern": ({"pre_tokenizer": split(r"a*[bc]")}, "grows faster than the text"),
    "a cubic pattern": ({"pre_tokenizer": split(r"\s*\s*[\r\n]")}, "retry-limit|grows faster"),
    "a long pattern": ({"pre_tokenizer": split("a" * 5000)}, "pattern of more than"),
    "a pattern in no language": ({"pre_tokenizer": split("(" * 9 + "a")}, "not a usable tokenizer"),
    "long words": ({"model": WORDPIECE | {"max_input_chars_per_word": 10**6}}, "words of more than"),
    "a huge id": ({"model": WORDPIECE | {"max_input_chars_per_word": 100, "vocab": WORDS | {"z": 2**32 - 1}}}, "an id"),
    "a huge token": (
        {"model": WORDPIECE | {"max_input_chars_per_word": 100, "vocab": WORDS | {"z" * 2000: 4}}},
        "token of more than",
    ),
    "a huge added token": ({"added_tokens": [ADDED]}, "token of more than"),
    "one text many times": (
        {"post_processor": template([{"Sequence": {"id": "A", "type_id": 0}}] * 9)},
        "repeats a text",
    ),
    "a long frame": (
        {
            "post_processor": template(
                [{"SpecialToken": {"id": "a", "type_id": 0}}],
                {"a": {"id": "a", "ids": [1] * 2000, "tokens": ["a"] * 2000}},
            )
        },
        "special tokens to a text",
    ),
    "no component at all": ({"normalizer": 5}, "not a usable tokenizer"),
    "no model": ({"model": None}, "not a usable tokenizer"),
}


SLOW = pytest.param("a quadratic pattern", marks=pytest.mark.slow)  # the trial waits for it


@pytest.mark.parametrize("name", [SLOW if name == SLOW.values[0] else name for name in HOSTILE])
def test_a_hostile_tokenizer_is_rejected_in_time(name, tmp_path):
    changes, said = HOSTILE[name]
    write(tmp_path, **changes)
    with pytest.raises((ModelFolderError, CorruptFileError), match=said) as caught:
        mw.Tokenizer.load(tmp_path)
    assert "tokenizer.json" in str(caught.value) and "\n" not in str(caught.value)


def pieces_of_albert(folder):
    (folder / "spiece.model").write_bytes(trained("albert"))
    return read_pieces(folder / "spiece.model")


def published(folder):
    pieces = [("<unk>", 0.0), ("▁", -1.0), ("a", -2.0)]
    table = pieces_of_albert(folder).charsmap  # the forms KC
    found = {
        "bert": (models.WordPiece(WORDS, unk_token="[UNK]"), normalizers.BertNormalizer(),
                 pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()),
        "byte-level": (models.BPE({"a": 0, "e": 1}, []), normalizers.NFC(),
                                       pre_tokenizers.ByteLevel(), decoders.ByteLevel()),
        "clip": (models.BPE({"a": 0, "e": 1}, [], end_of_word_suffix="</w>"),
                 normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "),
                                       normalizers.Lowercase()]),
                 pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(GPT2), "removed", invert=True),
                                          pre_tokenizers.ByteLevel(use_regex=False)]), decoders.ByteLevel()),
        "albert": (models.Unigram(pieces, 0, False),
                   normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.Replace("''", '"'),
                                         normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                         normalizers.Precompiled(table),
                                         normalizers.Replace(Regex(" {2,}"), " ")]),
                   pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
                   decoders.Metaspace()),
        "xlm-roberta": (models.Unigram(pieces, 0, False),
                        normalizers.Sequence([normalizers.Precompiled(table),
                                               normalizers.Replace(Regex(" {2,}"), "▁")]),
                        pre_tokenizers.Metaspace(), decoders.Metaspace()),
        "llama": (models.BPE({"a": 0, "▁": 1}, [], byte_fallback=False),
                  normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None,
                  decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])),
    }  # fmt: skip
    made = {}
    for name, (model, normalizer, splitter, decoder) in found.items():
        made[name] = Backend(model)
        if normalizer is not None:
            made[name].normalizer = normalizer
        if splitter is not None:
            made[name].pre_tokenizer = splitter
        made[name].decoder = decoder
        made[name].post_processor = processors.TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
    return made


@pytest.mark.parametrize("name", ["bert", "byte-level", "clip", "albert", "xlm-roberta", "llama"])
def test_published_components_are_known_and_need_no_trial(name, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizer_check, "isolated", None)  # which a trial would call
    published(tmp_path)[name].save(str(tmp_path / "tokenizer.json"))
    assert mw.Tokenizer.load(tmp_path).encode_plain(["a"])


@pytest.mark.parametrize("kind", ["wordpiece", "wordpiece-score", "bpe", "byte-bpe", "word", "char"])
def test_tokenizers_of_our_own_need_no_trial(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizer_check, "isolated", None)
    mw.Tokenizer.train_from_iterator(["a cat sat", "a dog ran"], kind, 300).save(tmp_path / "t")
    assert mw.Tokenizer.load(tmp_path / "t").kind == kind


def test_an_unknown_pattern_is_tried_once_and_then_used(tmp_path, monkeypatch):
    tried = []
    isolated = tokenizer_check.isolated
    monkeypatch.setattr(tokenizer_check, "isolated", lambda *work: tried.append(work[0]) or isolated(*work))
    monkeypatch.setattr(tokenizer_check, "_passed", set())
    write(tmp_path, pre_tokenizer=split(r"[a-z]+|\d{1,2}"))
    for _ in range(2):
        assert mw.Tokenizer.load(tmp_path).encode_plain(["a"]) == [[1]]
    assert tried == [tokenizer_check.TRIAL]


def test_a_pattern_that_gives_up_on_a_text_is_an_error_and_no_crash(tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizer_check, "_try", lambda *file: None)  # as if the trial had not found the text
    tokenizer = mw.Tokenizer.load(write(tmp_path, pre_tokenizer=split(r"(a+)+$")))
    with pytest.raises(InputError, match="retry-limit"):
        tokenizer.encode_plain(["a" * 40 + "!"])


def test_a_sentencepiece_table_with_a_long_text_is_rejected():
    check_replacements(base64.b64decode(charsmap("صلى الله عليه وسلم".encode())))
    check_replacements(b"")
    with pytest.raises(ValueError, match="more than 256 bytes"):
        check_replacements(base64.b64decode(charsmap(b"x" * 300)))
