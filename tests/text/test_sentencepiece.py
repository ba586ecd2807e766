"""Folders with a SentencePiece model alone: the ids, tokens and offsets of transformers' fast tokenizers."""

from __future__ import annotations

import json
import os
import random

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.core.errors import MaskwrightError, ModelFolderError
from maskwright.text.tokenizers.tokenizer import Tokenizer
from text.sentencepiece_samples import FILES, SPELT, block, piece, trained
from text.tokenizer_samples import CORPUS, any_text

TEXTS = [
    *CORPUS,
    "",
    "  two  spaces\tand a tab \n",
    "``quoted'' and ''so``",
    "naïve CAFÉ, ﬁne ½ Ｆｕｌｌ 東京",
    "a [MASK] b[MASK]c <mask> d",
    "( in ) [CLS] <s> <unk> <pad> <sep>",
    "▁under▁lined",
    "\x00\u200b\ufeffodd\u2028lines",
    "1,000 and 2000, 3",
]


def folder_of(family, root, model=None, config=None, model_type=True):
    """A folder with the model, perhaps a tokenizer_config.json, and a config.json that names the family."""
    folder = root / family
    folder.mkdir()
    (folder / FILES[family]).write_bytes(trained(family) if model is None else model)
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if model_type:
        (folder / "config.json").write_text(json.dumps({"model_type": family}))
    return folder


def theirs_of(folder):
    for library in ("sentencepiece", "google.protobuf"):
        pytest.importorskip(library, reason=f"transformers reads a SentencePiece model with {library}")
    return pytest.importorskip("transformers").AutoTokenizer.from_pretrained(folder)


def check_equal(ours, theirs, text, pair=None):
    expected = theirs([text], None if pair is None else [pair], return_offsets_mapping=True, return_token_type_ids=True)
    found = ours(text, pair)
    assert found.ids == expected["input_ids"][0]
    assert found.tokens == expected.tokens(0)
    assert found.type_ids == expected["token_type_ids"][0]
    assert found.offsets == [tuple(span) for span in expected["offset_mapping"][0]]
    assert ours.decode(found.ids) == theirs.decode(expected["input_ids"][0], skip_special_tokens=True)


@pytest.fixture(scope="module", params=list(FILES))
def both(request, tmp_path_factory):
    """Ours and theirs, of a folder with the model and a config.json alone."""
    pytest.importorskip("sentencepiece", reason="the library trains the model of this test")
    folder = folder_of(request.param, tmp_path_factory.mktemp("model"))
    return Tokenizer.load(folder), theirs_of(folder)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("pair", [None, "and the Other one"])
def test_the_model_alone_gives_their_ids_tokens_and_offsets(both, text, pair):
    check_equal(*both, text, pair)


@settings(max_examples=60)
@given(text=any_text, pair=st.none() | any_text)
def test_any_text_gives_their_ids_tokens_and_offsets(both, text, pair):
    check_equal(*both, text, pair)


def test_roles_and_vocabulary_are_theirs(both):
    ours, theirs = both
    for role in ("unk", "sep", "pad", "cls", "mask"):
        assert ours.special_tokens[role] == getattr(theirs, f"{role}_token"), role
    assert ours.backend.get_vocab() == theirs.get_vocab()
    assert ours.kind == "unigram" and ours.vocab_size == len(theirs)


def test_what_is_written_here_opens_there_and_here(both, tmp_path):
    from transformers import AutoTokenizer

    ours, theirs = both
    ours.save(tmp_path / "tok")
    again, there = Tokenizer.load(tmp_path / "tok"), AutoTokenizer.from_pretrained(tmp_path / "tok")
    for text in TEXTS:
        check_equal(again, theirs, text, "b")
        assert there(text, "b")["input_ids"] == theirs(text, "b")["input_ids"]


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="XLMRobertaTokenizer and AlbertTokenizer rebuild a SentencePiece model without its byte fallback.",
    ours="Byte fallback is kept: the pieces of sentencepiece 0.2.3. A BPE model is refused.",
)
@pytest.mark.parametrize("family", FILES)
def test_byte_fallback_gives_the_pieces_of_the_library(family, tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    folder = folder_of(family, tmp_path, trained(family, byte_fallback=True, vocab_size=400))
    library = sentencepiece.SentencePieceProcessor(model_file=str(folder / FILES[family]))
    ours = Tokenizer.load(folder)
    ours.save(tmp_path / "saved")
    for text in ("the \N{UNICORN FACE} cat", "\N{CJK UNIFIED IDEOGRAPH-6771} and \N{ZERO WIDTH JOINER}a", "the cat"):
        wanted = library.encode(text, out_type=str)
        for tokenizer in (ours, Tokenizer.load(tmp_path / "saved")):
            ids = tokenizer.encode_plain([text])[0]
            assert [tokenizer.id_to_token(id) for id in ids] == wanted
            assert tokenizer.decode(ids) == library.decode(wanted)


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="DebertaV2Tokenizer rebuilds a SentencePiece model without its table of characters.",
    ours="The table is kept, in saved folders too: the pieces of sentencepiece 0.2.3.",
)
def test_debertas_table_of_characters_is_kept(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    folder = folder_of("deberta-v2", tmp_path, trained("deberta-v2", normalization_rule_name="nmt_nfkc"))
    library = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))
    Tokenizer.load(folder).save(tmp_path / "saved")
    for text in ("ﬁne ½ Ｆｕｌｌ cat", "the  cat"):
        wanted = library.encode(text)
        for found in (Tokenizer.load(folder), Tokenizer.load(tmp_path / "saved")):
            assert found.encode_plain([text])[0] == wanted
    assert theirs_of(folder)("ﬁne")["input_ids"][1:-1] != library.encode("ﬁne")


@pytest.mark.parametrize(
    "family, config",
    [
        ("albert", {"do_lower_case": False}),
        ("albert", {"keep_accents": True}),
        ("albert", {"tokenizer_class": "AlbertTokenizer", "add_prefix_space": False}),
        ("albert", {"mask_token": {"__type": "AddedToken", "content": "[MASK]", "lstrip": True, "normalized": False}}),
        ("albert", {"added_tokens_decoder": {"4": {"content": "[MASK]", "lstrip": True, "special": True}}}),
        ("xlm-roberta", {"tokenizer_class": "XLMRobertaTokenizerFast", "model_max_length": 512}),
        ("xlm-roberta", {"mask_token": {"__type": "AddedToken", "content": "<mask>", "lstrip": True}}),
        ("big_bird", {"tokenizer_class": "BigBirdTokenizer"}),
    ],
)
def test_settings_of_the_folder_are_followed_as_there(family, config, tmp_path):
    pytest.importorskip("sentencepiece")
    folder = folder_of(family, tmp_path, config=config)
    ours, theirs = Tokenizer.load(folder), theirs_of(folder)
    for text in TEXTS:
        check_equal(ours, theirs, text)
        check_equal(ours, theirs, text, "and more [MASK] <mask>")


# -- without the library -----------------------------------------------------------------------------------------


def test_neither_the_library_nor_protobuf_is_needed(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    tokenizer = Tokenizer.load(folder_of("albert", tmp_path, SPELT))
    encoding = tokenizer("the Cats [MASK] x")
    assert encoding.tokens == ["[CLS]", "▁the", "▁cat", "s", "[MASK]", "▁", "x", "[SEP]"]
    assert encoding.ids == [2, 5, 6, 9, 4, 7, 1, 3]
    assert encoding.offsets[1:4] == [(0, 3), (4, 7), (7, 8)]


@pytest.mark.parametrize("config", [{"tokenizer_class": "T5Tokenizer"}, None])
def test_another_family_is_named(config, tmp_path):
    folder = folder_of("albert", tmp_path, SPELT, config)
    (folder / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(
        ModelFolderError, match="supported for AlbertTokenizer, .* not for (T5Tokenizer|a model of type 't5')"
    ):
        Tokenizer.load(folder)


@pytest.mark.parametrize(
    "data, said",
    [
        (b"", "no pieces"),
        (b"not a model", "not a SentencePiece model"),
        (block(3, b""), "no pieces"),
        (SPELT[:-3], "truncated"),
        (SPELT + b"\x0a\xff\xff\xff\xff\x0f", "truncated"),
        (SPELT + b"\xff" * 20, "unterminated varint"),
        (SPELT + b"\x0b", "unsupported wire type 3"),
        (SPELT + piece("x", float("nan")), "the score of piece 10 is not a number"),
        (SPELT + block(1, block(1, b"\xff\xfe")), "utf-8"),
        (SPELT + block(1, b"\x08\x05"), "not a SentencePiece model"),
        (SPELT + block(3, block(2, b"junk")), "not a usable vocabulary"),
        (piece("<unk>"), "not a usable vocabulary"),
        (SPELT + block(2, b"\x18\x02"), "a type other than Unigram"),
    ],
)
def test_another_file_is_refused_in_one_sentence(data, said, tmp_path):
    with pytest.raises(ModelFolderError, match=said) as caught:
        Tokenizer.load(folder_of("albert", tmp_path, data))
    assert "\n" not in str(caught.value)


def test_random_damage_is_refused_in_words_or_gives_a_tokenizer(tmp_path):
    folder, chance = folder_of("albert", tmp_path, SPELT), random.Random(0)
    for _ in range(300):
        bad = bytearray(SPELT)
        for _ in range(chance.choice([1, 2, 8])):
            bad[chance.randrange(len(bad))] = chance.randrange(256)
        (folder / "spiece.model").write_bytes(
            bytes(bad[: chance.randrange(len(bad))] if chance.random() < 0.3 else bad)
        )
        try:
            tokenizer = Tokenizer.load(folder)
        except MaskwrightError as error:
            assert str(error)
        else:
            assert tokenizer("the cats").ids
