"""Token shards: a prepared corpus on disk, memory-mapped, with constant-time access to documents.

    folder/shards.json           sources, settings, tokenizer and counts; written last
    folder/unigram_counts.bin    int64 [vocab]: count of each token
    folder/shard-00000/          tokens.bin     uint16 or uint32 [tokens]
                                 sentences.bin  int64 [sentences]: end of each sentence in tokens
                                 documents.bin  int64 [documents]: end of each document in sentences
                                 digests.bin    uint64 [seen, 2]: BLAKE2b-128 of each text, to find duplicates
                                 facts.json, manifest.json

All numbers are little-endian. Data is loaded on access, so a corpus may be larger than memory.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core import storage
from ..core.errors import CorruptFileError, InputError, MissingFileError
from ..text.tokenizers.tokenizer import Tokenizer

FORMAT = 2  # format 1 had no checksum in shards.json
FACTS = "shards.json"
UNFINISHED = "preparation.json"
PREPARE_AGAIN = "Prepare the corpus again."
COUNTS = "unigram_counts.bin"
OFFSET = np.dtype("<i8")
MAX_OPEN_SHARDS = 128  # each has three memory maps, and the number of open files is limited


class Shard(NamedTuple):
    """The arrays of one shard, mapped read-only."""

    tokens: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray


def token_dtype(vocab_size: int) -> np.dtype:
    """Returns the smallest integer type for all ids."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


def shard_name(index: int) -> str:
    """Returns the folder name of shard `index`."""
    return f"shard-{index:05d}"


def map_array(path: Path, dtype: np.dtype, count: int) -> np.ndarray:
    """Maps a file of `count` numbers read-only. Raises CorruptFileError if its size differs."""
    size = path.stat().st_size if path.is_file() else -1
    if size != count * dtype.itemsize:
        state = "is missing" if size < 0 else f"has {size:,} bytes, not {count * dtype.itemsize:,}"
        raise CorruptFileError(f"{path} {state}: prepare the corpus again.")
    if count == 0:
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, mode="r").view(np.ndarray)  # slicing a plain array is much faster


def tokenizer_sha256(tokenizer: Tokenizer) -> str:
    """Identifies a tokenizer by the SHA-256 of its tokenizer.json."""
    return hashlib.sha256(tokenizer.files()["tokenizer.json"]).hexdigest()


def read_facts(folder: Path) -> dict[str, Any]:
    """Reads shards.json. Raises InputError for another format, CorruptFileError if it has changed."""
    path = folder / FACTS
    facts = storage.read_json(path)
    known = facts.get("format") if isinstance(facts, dict) else None
    if known == FORMAT:
        return storage.read_checked_json(path, PREPARE_AGAIN)
    if known != 1:
        raise InputError(f"{path} has a format that this version does not support. {PREPARE_AGAIN}")
    return dict(facts)


def check_tokenizer(place: Path | str, facts: dict[str, Any], tokenizer: Tokenizer | None) -> None:
    """Raises InputError if the shards at `place` were prepared with another tokenizer."""
    if tokenizer is not None and tokenizer_sha256(tokenizer) != facts["tokenizer_sha256"]:
        raise InputError(f"{place} was prepared with another tokenizer: use that one, or prepare it again.")


class TokenShards:
    """Documents as token ids. Use `TokenShards.open`.

    folder: location of the shards; facts: content of shards.json, with "counts" (documents, sentences, tokens,
    unknown_tokens, duplicates, skipped_rows, longest_sentence, vocabulary_used, ...), "sources" and "settings";
    windows: see `StreamedShards`.
    """

    windows: np.ndarray | None = None

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self.folder, self.facts = folder, facts
        self.counts: dict[str, int] = facts["counts"]
        self.vocab_size: int = facts["vocab_size"]
        self.num_documents: int = self.counts["documents"]
        self.num_sentences: int = self.counts["sentences"]
        self.num_tokens: int = self.counts["tokens"]
        self._dtype = token_dtype(self.vocab_size)
        # number of documents before each shard, and of all: a list, because bisect is faster than np.searchsorted
        self._starts = list(accumulate((shard["documents"] for shard in facts["shards"]), initial=0))
        self._open: OrderedDict[int, Shard] = OrderedDict()
        self._lengths: np.ndarray | None = None

    @classmethod
    def open(cls, folder: Path | str, tokenizer: Tokenizer | None = None, *, verify: bool = True) -> TokenShards:
        """Opens a prepared corpus.

        tokenizer: verified to be the one used for the preparation; verify: check the SHA-256 of every file (about a
        second per gigabyte), otherwise only the sizes. Raises MissingFileError, InputError, CorruptFileError.
        """
        folder = Path(folder)
        if not (folder / FACTS).is_file():
            if (folder / UNFINISHED).is_file():
                raise InputError(f"{folder} contains an unfinished preparation: run it again to finish it.")
            raise MissingFileError(f"{folder} contains no token shards: {FACTS} is missing.")
        facts = read_facts(folder)
        check_tokenizer(folder, facts, tokenizer)
        shards = cls(folder, facts)
        shards.verify(deep=verify)
        return shards

    def __len__(self) -> int:
        return self.num_documents

    def document(self, index: int) -> list[np.ndarray]:
        """Returns the sentences of a document: each uint16 or uint32 [tokens], a view of the file."""
        shard, first, last = self._locate(index)
        ends = shard.sentences[first:last].tolist()
        start = int(shard.sentences[first - 1]) if first else 0
        return [shard.tokens[begin:end] for begin, end in zip([start, *ends[:-1]], ends, strict=True)]

    def document_tokens(self, index: int) -> np.ndarray:
        """Returns all tokens of a document: uint16 or uint32 [tokens], a view of the file."""
        shard, first, last = self._locate(index)
        start = int(shard.sentences[first - 1]) if first else 0
        return shard.tokens[start : int(shard.sentences[last - 1])]

    def sentence_lengths_of(self, index: int) -> np.ndarray:
        """Number of tokens of each sentence of a document: int64 [sentences]."""
        shard, first, last = self._locate(index)
        if first:
            return np.diff(shard.sentences[first - 1 : last])
        return np.diff(shard.sentences[:last], prepend=0)

    def document_lengths(self) -> np.ndarray:
        """Number of tokens of every document: int64 [documents]."""
        if self._lengths is None:
            shards = map(self._shard, range(len(self._starts) - 1))
            parts = [document_lengths(shard.sentences, shard.documents) for shard in shards]
            self._lengths = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        return self._lengths

    def unigram_counts(self) -> np.ndarray:
        """Count of each token: int64 [vocab]."""
        return map_array(self.folder / COUNTS, OFFSET, self.vocab_size)

    def verify(self, deep: bool = True) -> None:
        """Raises CorruptFileError with the first file that has changed."""
        for number, facts in enumerate(self.facts["shards"]):
            self._shard(number)
            if not deep:
                continue
            storage.verify_folder(
                self.folder / facts["name"], manifest_sha256=facts["manifest_sha256"], fix=PREPARE_AGAIN
            )
        self.unigram_counts()
        if deep and storage.sha256(self.folder / COUNTS) != self.facts["unigram_counts_sha256"]:
            raise CorruptFileError(f"{self.folder / COUNTS} has changed since it was written. {PREPARE_AGAIN}")

    def _locate(self, index: int) -> tuple[Shard, int, int]:
        """Returns the shard of a document, and its first and last + 1 sentence there."""
        if not 0 <= index < self.num_documents:
            raise IndexError(f"document {index} of {self.num_documents}")
        number = bisect_right(self._starts, index) - 1
        shard = self._shard(number)
        local = int(index) - self._starts[number]
        return shard, int(shard.documents[local - 1]) if local else 0, int(shard.documents[local])

    def _shard(self, number: int) -> Shard:
        if number in self._open:
            self._open.move_to_end(number)
            return self._open[number]
        shard = self._map(number)
        self._open[number] = shard
        while len(self._open) > MAX_OPEN_SHARDS:
            self._open.popitem(last=False)
        return shard

    def _map(self, number: int) -> Shard:
        return map_shard(self.folder, self.facts["shards"][number], self._dtype)


def map_shard(folder: Path, facts: dict[str, Any], dtype: np.dtype) -> Shard:
    """Maps the arrays of one shard; facts: its "name" and numbers of documents, sentences and tokens."""
    path = folder / facts["name"]
    return Shard(
        map_array(path / "tokens.bin", dtype, facts["tokens"]),
        map_array(path / "sentences.bin", OFFSET, facts["sentences"]),
        map_array(path / "documents.bin", OFFSET, facts["documents"]),
    )


def document_lengths(sentences: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Number of tokens of each document of a shard with these ends: int64 [documents]."""
    return np.diff(sentences[documents - 1], prepend=0)


class TextsInMemory:
    """Tokenized documents with the interface of token shards (data/shards.py).

    documents: the sentences of each, each int64 [tokens].
    """

    def __init__(self, documents: Sequence[Sequence[Sequence[int]]]) -> None:
        self._tokens = [np.array([id for own in document for id in own], dtype=np.int64) for document in documents]
        self._sentences = [np.array([len(own) for own in document], dtype=np.int64) for document in documents]

    @classmethod
    def encode(cls, documents: Sequence[Sequence[str]], tokenizer: Tokenizer) -> TextsInMemory:
        """Tokenizes the sentences of each document."""
        return cls([tokenizer.encode_plain(list(document)) for document in documents])

    def __len__(self) -> int:
        return len(self._tokens)

    def document_tokens(self, document: int) -> np.ndarray:
        """All tokens of a document: int64 [tokens]."""
        return self._tokens[document]

    def sentence_lengths_of(self, document: int) -> np.ndarray:
        """Number of tokens of each sentence of a document: int64 [sentences]."""
        return self._sentences[document]

    def document_lengths(self) -> np.ndarray:
        """Number of tokens of every document: int64 [documents]."""
        return np.array([len(tokens) for tokens in self._tokens], dtype=np.int64)
