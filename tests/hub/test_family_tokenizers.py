"""Tokenizers of the families: byte-level BPE, Unigram and WordPiece folders give the ids that transformers gives."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from maskwright.core.errors import CorruptFileError, ModelFolderError
from maskwright.text.tokenizers.tokenizer import Tokenizer
from text.tokenizer_samples import CORPUS

transformers = pytest.importorskip("transformers")
TEXTS = ["Hello there, world!", " the cat  sat", "naïve café 東京", "", "a<mask>b", "x [MASK] y", "don't\tstop\n"]
ROBERTA_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def byte_level() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A small byte-level vocabulary with RoBERTa's special tokens first, and its merges."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=ROBERTA_SPECIALS, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    model = json.loads(backend.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def unigram(specials: list[str]) -> list[tuple[str, float]]:
    """A small Unigram vocabulary with `specials` first."""
    backend = Backend(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=200, special_tokens=specials, unk_token="<unk>", show_progress=False)
    backend.train_from_iterator(CORPUS, trainer)
    return [(piece, score) for piece, score in json.loads(backend.to_str())["model"]["vocab"]]


def wordpiece(specials: list[str]) -> dict[str, int]:
    """A small WordPiece vocabulary with `specials` first."""
    words = dict.fromkeys(word for text in CORPUS for word in text.lower().split())
    pieces = dict.fromkeys(letter for word in words for letter in word)
    tokens = [*specials, *words, *pieces, *(f"##{letter}" for letter in pieces)]
    return {token: index for index, token in enumerate(dict.fromkeys(tokens))}


def make(kind: str):
    """A tokenizer of transformers."""
    if kind == "roberta":
        vocab, merges = byte_level()
        return transformers.RobertaTokenizer(vocab=vocab, merges=merges)
    if kind == "xlm-roberta":
        return transformers.XLMRobertaTokenizer(vocab=unigram(["<s>", "<pad>", "</s>", "<unk>", "<mask>"]))
    if kind == "albert":
        return transformers.AlbertTokenizer(vocab=unigram(["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]))
    if kind == "mpnet":
        return transformers.MPNetTokenizer(vocab=wordpiece(["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]))
    return transformers.BertTokenizer(vocab=wordpiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))


KINDS = ["roberta", "xlm-roberta", "albert", "mpnet", "bert"]


@pytest.fixture(scope="module", params=KINDS)
def both(request, tmp_path_factory):
    """Ours and theirs, from the folder that theirs wrote."""
    folder = tmp_path_factory.mktemp(request.param)
    theirs = make(request.param)
    theirs.save_pretrained(folder)
    return Tokenizer.load(folder), theirs


def check_equal(ours, theirs, text, pair=None):
    expected = theirs([text], None if pair is None else [pair], return_offsets_mapping=True, return_token_type_ids=True)
    found = ours(text, pair)
    assert found.ids == expected["input_ids"][0]
    assert found.type_ids == expected["token_type_ids"][0]
    assert found.offsets == [tuple(span) for span in expected["offset_mapping"][0]]
    assert ours.decode(found.ids) == theirs.decode(expected["input_ids"][0], skip_special_tokens=True)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("pair", [None, "and the other one"])
def test_what_transformers_wrote_gives_its_ids(both, text, pair):
    check_equal(*both, text, pair)


@settings(max_examples=40)
@given(text=st.text(max_size=30), pair=st.none() | st.text(max_size=20))
def test_any_text_gives_its_ids(both, text, pair):
    check_equal(*both, text, pair)


def test_special_tokens_have_their_roles(both):
    ours, theirs = both
    for role in ("unk", "sep", "pad", "cls", "mask"):
        assert ours.special_tokens[role] == getattr(theirs, f"{role}_token"), role
    assert ours.pad_id == theirs.pad_token_id and ours.mask_id == theirs.mask_token_id


def test_what_is_written_here_opens_there(both, tmp_path):
    ours, theirs = both
    ours.save(tmp_path / "tok")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "tok")
    for text in TEXTS:
        assert again(text)["input_ids"] == theirs(text)["input_ids"]
        assert again(text, "b")["input_ids"] == theirs(text, "b")["input_ids"]
    assert again.mask_token == theirs.mask_token


def merges_folder(folder, config=None, specials=True):
    """The two files that older checkpoints come with, and nothing else but a configuration."""
    vocab, merges = byte_level()
    if not specials:
        vocab = {token: index for index, token in enumerate(token for token in vocab if token not in ROBERTA_SPECIALS)}
    folder.mkdir(exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(merge) for merge in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


MASK = {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "rstrip": False, "normalized": False}


@pytest.mark.parametrize("add_prefix_space", [False, True])
def test_vocabulary_and_merges_make_robertas_tokenizer(add_prefix_space, tmp_path):
    config = {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": add_prefix_space, "mask_token": MASK}
    folder = merges_folder(tmp_path / "tok", config)
    ours, theirs = Tokenizer.load(folder), transformers.AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        check_equal(ours, theirs, text)
        check_equal(ours, theirs, text, "and more")
    assert ours("a <mask>").ids[-2] == ours.mask_id == 4 and ours.pad_id == 1


def test_without_a_configuration_the_usual_special_tokens_are_taken(tmp_path):
    tokenizer = Tokenizer.load(merges_folder(tmp_path / "tok"))
    assert tokenizer("a", "b").tokens == ["<s>", "a", "</s>", "</s>", "b", "</s>"]
    assert tokenizer("a", "b").type_ids == [0] * 6


def test_a_vocabulary_without_merges_is_named(tmp_path):
    folder = merges_folder(tmp_path / "tok")
    (folder / "merges.txt").unlink()
    with pytest.raises(ModelFolderError, match=r"merges\.txt"):
        Tokenizer.load(folder)


@pytest.mark.parametrize(
    "name, content",
    [
        ("vocab.json", "[1, 2]"),
        ("vocab.json", '{"a": "b"}'),
        ("vocab.json", '{"a": -1}'),
        ("vocab.json", '{"a": true}'),
        ("merges.txt", "one\n"),
        ("merges.txt", "q q q\n"),
        ("merges.txt", "nowhere tofind\n"),
    ],
)
def test_damaged_files_are_named(name, content, tmp_path):
    folder = merges_folder(tmp_path / "tok")
    (folder / name).write_text(content)
    with pytest.raises(CorruptFileError, match=name):
        Tokenizer.load(folder)


AMINO_ACIDS = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO", ".", "-", "<null_1>", "<mask>"]


@pytest.mark.parametrize("saved", [False, True])
def test_the_vocabulary_of_a_protein_model_splits_sequences_as_there(saved, tmp_path):
    folder = tmp_path / "tok"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(AMINO_ACIDS))
    theirs = transformers.EsmTokenizer(str(folder / "vocab.txt"))
    theirs.save_pretrained(folder)
    ours = Tokenizer.load(folder)
    assert (ours.pad_id, ours.mask_id) == (1, 32)
    if saved:
        ours.save(tmp_path / "saved")
        ours, theirs = (
            Tokenizer.load(tmp_path / "saved"),
            transformers.AutoTokenizer.from_pretrained(tmp_path / "saved"),
        )
    for text in ("MKTLLVLAVVX", "M K <mask> T", "MJKT mkt ?", "", "<null_1>-.Z  B", "M<mask>K<pad>", "MKé<eos>T"):
        assert ours(text).ids == theirs(text)["input_ids"], text
        assert ours(text, "AV").ids == theirs(text, "AV")["input_ids"], text


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="DebertaTokenizer puts two separators between the texts of a pair, all of type 0, also where tokenizer.json "
    "has one and two types.",
    ours="Pairs are framed as published, [CLS] A [SEP] B [SEP] with types 0 and 1, and as tokenizer.json says; saved "
    "folders name the class that follows it.",
)
def test_deberta_separates_a_pair_once(tmp_path):
    folder = merges_folder(tmp_path / "tok")
    names = dict(zip(ROBERTA_SPECIALS, ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"], strict=True))
    vocab = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps({names.get(token, token): index for token, index in vocab.items()}))
    (folder / "config.json").write_text(json.dumps({"model_type": "deberta"}))
    ours, theirs = Tokenizer.load(folder), transformers.AutoTokenizer.from_pretrained(folder)
    for text in (one.replace(" [MASK]", "") for one in TEXTS):  # its space is a token of its own there
        assert ours(text).ids == theirs(text)["input_ids"]
    assert theirs("a", "b").tokens() == ["[CLS]", "a", "[SEP]", "[SEP]", "b", "[SEP]"]
    ours.save(tmp_path / "saved")
    again, there = Tokenizer.load(tmp_path / "saved"), transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    for found in (ours("a", "b"), again("a", "b")):
        assert found.tokens == ["[CLS]", "a", "[SEP]", "b", "[SEP]"] and found.type_ids == [0, 0, 0, 1, 1]
    assert there("a", "b")["input_ids"] == ours("a", "b").ids
