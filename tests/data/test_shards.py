"""Token shards give back every document, at random, from any number of shards; damage is found and named."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from data.toy_tokenizer import ToyTokenizer, write_corpus
from maskwright.core.errors import CorruptFileError, InputError, MissingFileError
from maskwright.data import shards as shards_module
from maskwright.data.prepare import prepare
from maskwright.data.shards import TokenShards
from maskwright.text.readers.corpus import read_documents


def expected_documents(path: Path, tokenizer: ToyTokenizer) -> list[list[list[int]]]:
    """The documents as ids: duplicates, empty sentences and empty documents left out."""
    unique = dict.fromkeys(document.sentences for document in read_documents(path))
    encoded = [[ids for ids in map(tokenizer.encode, sentences) if ids] for sentences in unique]
    return [sentences for sentences in encoded if sentences]


@pytest.fixture(scope="module", params=[150, 700, 1 << 24], ids=["many shards", "some shards", "one shard"])
def prepared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[TokenShards, list[list[list[int]]]]:
    folder = tmp_path_factory.mktemp("prepared")
    path, tokenizer = write_corpus(folder, 80), ToyTokenizer()
    shards = prepare(path, tokenizer, folder / "out", shard_tokens=request.param)
    return shards, expected_documents(path, tokenizer)


def test_documents_come_back_in_order_and_at_random(prepared, monkeypatch):
    shards, expected = prepared
    monkeypatch.setattr(shards_module, "MAX_OPEN_SHARDS", 2)
    shards = TokenShards.open(shards.folder)
    assert len(shards) == shards.num_documents == len(expected)
    order = np.random.default_rng(0).permutation(len(expected))
    for index in [*range(len(expected)), *order.tolist()]:
        document = shards.document(index)
        assert [sentence.tolist() for sentence in document] == expected[index]
        assert shards.document_tokens(index).tolist() == list(chain.from_iterable(expected[index]))
        assert shards.sentence_lengths_of(index).tolist() == [len(ids) for ids in expected[index]]
    assert len(shards._open) <= 2


def test_counts_are_those_of_the_documents(prepared):
    shards, expected = prepared
    flat = [ids for document in expected for ids in document]
    tokens = np.concatenate(flat)
    assert shards.num_sentences == len(flat) and shards.num_tokens == len(tokens)
    assert shards.document_lengths().tolist() == [sum(map(len, document)) for document in expected]
    assert shards.document_lengths().dtype == np.int64
    counts = shards.unigram_counts()
    assert counts.tolist() == np.bincount(tokens, minlength=shards.vocab_size).tolist()
    assert shards.counts["unknown_tokens"] == (tokens == 1).sum()
    assert shards.counts["vocabulary_used"] == len(set(tokens.tolist()))
    assert shards.counts["longest_sentence"] == max(map(len, flat))
    assert shards.counts["longest_document"] == max(sum(map(len, document)) for document in expected)
    facts = shards.facts["shards"]
    assert sum(entry["documents"] for entry in facts) == len(expected)


def test_large_vocabularies_take_four_bytes(tmp_path):
    class Large(ToyTokenizer):
        def encode(self, text: str) -> list[int]:
            return [70_000 + len(text)] if text.strip(".") else []

    path = write_corpus(tmp_path, 10)
    shards = prepare(path, Large(80_000), tmp_path / "out")
    assert shards.document(0)[0].dtype == np.uint32
    assert [[ids.tolist() for ids in shards.document(n)] for n in range(len(shards))] == expected_documents(
        path, Large()
    )


def test_every_flipped_bit_is_found_and_its_file_named(tmp_path):
    folder = tmp_path / "out"
    prepare(write_corpus(tmp_path, 40), ToyTokenizer(), folder, shard_tokens=300)
    rng = np.random.default_rng(1)
    paths = [path for path in folder.rglob("*.*") if path.suffix in (".bin", ".json")]
    assert len(paths) > 10
    paths += [folder / "shards.json"] * 30
    for path in paths:
        data = bytearray(path.read_bytes())
        at = int(rng.integers(len(data)))
        data[at] ^= 1 << int(rng.integers(8))
        original = path.read_bytes()
        path.write_bytes(data)
        with pytest.raises((CorruptFileError, InputError), match=path.name):
            TokenShards.open(folder)
        path.write_bytes(original)
    TokenShards.open(folder)


def test_a_file_of_another_size_is_found_without_reading_it(tmp_path):
    folder = tmp_path / "out"
    prepare(write_corpus(tmp_path, 40), ToyTokenizer(), folder)
    path = folder / "shard-00000" / "tokens.bin"
    for change in (lambda data: data[:-2], lambda data: data + b"\0\0"):
        original = path.read_bytes()
        path.write_bytes(change(original))
        with pytest.raises(CorruptFileError, match=r"tokens\.bin has"):
            TokenShards.open(folder, verify=False)
        path.write_bytes(original)
    path.unlink()
    with pytest.raises(CorruptFileError, match=r"tokens\.bin is missing"):
        TokenShards.open(folder, verify=False)


def test_a_folder_that_is_no_prepared_corpus_is_refused(tmp_path):
    with pytest.raises(MissingFileError, match="contains no token shards"):
        TokenShards.open(tmp_path)
    (tmp_path / "shards.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(InputError, match="does not support"):
        TokenShards.open(tmp_path)
    (tmp_path / "shards.json").write_text("{")
    with pytest.raises(CorruptFileError):
        TokenShards.open(tmp_path)
