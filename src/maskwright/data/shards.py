"""Token shards: a prepared corpus on disk, mapped into memory, with every document at hand in constant time.

    folder/shards.json           what was prepared, from what, with which tokenizer; written last
    folder/unigram_counts.bin    int64 [vocab]: how often each token occurs
    folder/shard-00000/          tokens.bin     uint16 or uint32 [tokens]
                                 sentences.bin  int64 [sentences]: where each sentence ends in tokens
                                 documents.bin  int64 [documents]: where each document ends in sentences
                                 digests.bin    uint64 [seen, 2]: BLAKE2b-128 of each text, to find duplicates
                                 facts.json, manifest.json

All numbers are little-endian. Nothing is loaded before it is asked for, so a corpus may be larger than
memory.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..core import storage
from ..core.errors import CorruptFileError, InputError, MissingFileError

FORMAT = 1
FACTS = "shards.json"
UNFINISHED = "preparation.json"
COUNTS = "unigram_counts.bin"
OFFSET = np.dtype("<i8")
MAX_OPEN_SHARDS = 128  # each holds three maps, and systems allow some thousand open files


class PlainTokenizer(Protocol):
    """What preparation asks of a tokenizer (text.tokenizer.Tokenizer)."""

    @property
    def unk_id(self) -> int | None: ...

    @property
    def vocab_size(self) -> int: ...

    def encode_plain(self, texts: list[str]) -> list[list[int]]: ...

    def files(self) -> dict[str, bytes]: ...


class Shard(NamedTuple):
    """One shard's arrays, mapped read-only."""

    tokens: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray


def token_dtype(vocab_size: int) -> np.dtype:
    """The smallest type that holds every id."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


def shard_name(index: int) -> str:
    """Folder of shard `index`."""
    return f"shard-{index:05d}"


def map_array(path: Path, dtype: np.dtype, count: int) -> np.ndarray:
    """A file of `count` numbers, mapped read-only. Raises CorruptFileError when its size is another."""
    size = path.stat().st_size if path.is_file() else -1
    if size != count * dtype.itemsize:
        state = "is missing" if size < 0 else f"has {size:,} bytes, not {count * dtype.itemsize:,}"
        raise CorruptFileError(f"{path} {state}: prepare the corpus again.")
    if count == 0:
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, mode="r").view(np.ndarray)  # slices of a plain array are much cheaper


def tokenizer_sha256(tokenizer: PlainTokenizer) -> str:
    """Identity of a tokenizer: the SHA-256 of its tokenizer.json."""
    return hashlib.sha256(tokenizer.files()["tokenizer.json"]).hexdigest()


class TokenShards:
    """Documents as token ids. Use `TokenShards.open`.

    folder: where the shards are; facts: the content of shards.json, with "counts" (documents, sentences,
    tokens, unknown_tokens, duplicates, skipped_rows, longest_sentence, vocabulary_used, ...), "sources" and
    "settings".
    """

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self.folder, self.facts = folder, facts
        self.counts: dict[str, int] = facts["counts"]
        self.vocab_size: int = facts["vocab_size"]
        self.num_documents: int = self.counts["documents"]
        self.num_sentences: int = self.counts["sentences"]
        self.num_tokens: int = self.counts["tokens"]
        self._dtype = token_dtype(self.vocab_size)
        # documents before each shard, int64 [shards + 1]
        self._starts = np.cumsum([0, *(shard["documents"] for shard in facts["shards"])], dtype=np.int64)
        self._open: OrderedDict[int, Shard] = OrderedDict()
        self._lengths: np.ndarray | None = None

    @classmethod
    def open(cls, folder: Path | str, tokenizer: PlainTokenizer | None = None, *, verify: bool = True) -> TokenShards:
        """Open a prepared corpus.

        tokenizer: checked to be the one that made the ids; verify: check the SHA-256 of every file (about a
        second per gigabyte), else only the sizes. Raises MissingFileError, InputError, CorruptFileError.
        """
        folder = Path(folder)
        if not (folder / FACTS).is_file():
            if (folder / UNFINISHED).is_file():
                raise InputError(f"{folder} holds an unfinished preparation: prepare it again to finish it.")
            raise MissingFileError(f"{folder} holds no token shards: it has no {FACTS}.")
        facts = storage.read_json(folder / FACTS)
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise InputError(f"{folder / FACTS} has a format that this version does not read: prepare it again.")
        if tokenizer is not None and tokenizer_sha256(tokenizer) != facts["tokenizer_sha256"]:
            raise InputError(f"{folder} was prepared with another tokenizer: give that one, or prepare it again.")
        shards = cls(folder, facts)
        shards.verify(deep=verify)
        return shards

    def __len__(self) -> int:
        return self.num_documents

    def document(self, index: int) -> list[np.ndarray]:
        """The sentences of a document: for each, uint16 or uint32 [tokens], a view of the file."""
        shard, first, last = self._locate(index)
        ends = shard.sentences[first:last].tolist()
        start = int(shard.sentences[first - 1]) if first else 0
        return [shard.tokens[begin:end] for begin, end in zip([start, *ends[:-1]], ends, strict=True)]

    def document_tokens(self, index: int) -> np.ndarray:
        """All tokens of a document: uint16 or uint32 [tokens], a view of the file."""
        shard, first, last = self._locate(index)
        start = int(shard.sentences[first - 1]) if first else 0
        return shard.tokens[start : int(shard.sentences[last - 1])]

    def sentence_lengths_of(self, index: int) -> np.ndarray:
        """Tokens of each sentence of a document: int64 [sentences]."""
        shard, first, last = self._locate(index)
        if first:
            return np.diff(shard.sentences[first - 1 : last])
        return np.diff(shard.sentences[:last], prepend=0)

    def document_lengths(self) -> np.ndarray:
        """Tokens of every document: int64 [documents]."""
        if self._lengths is None:
            parts = [_document_lengths(self._shard(number)) for number in range(len(self._starts) - 1)]
            self._lengths = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        return self._lengths

    def unigram_counts(self) -> np.ndarray:
        """How often each token occurs: int64 [vocab]."""
        return map_array(self.folder / COUNTS, OFFSET, self.vocab_size)

    def verify(self, deep: bool = True) -> None:
        """Raise CorruptFileError naming the first file that is not as it was written."""
        for number, facts in enumerate(self.facts["shards"]):
            self._shard(number)
            if not deep:
                continue
            path = self.folder / facts["name"]
            if storage.sha256(path / storage.MANIFEST) != facts["manifest_sha256"]:
                raise CorruptFileError(f"{path / storage.MANIFEST} has changed: prepare the corpus again.")
            storage.verify_folder(path)
        self.unigram_counts()
        if deep and storage.sha256(self.folder / COUNTS) != self.facts["unigram_counts_sha256"]:
            raise CorruptFileError(f"{self.folder / COUNTS} has changed: prepare the corpus again.")

    def _locate(self, index: int) -> tuple[Shard, int, int]:
        """The shard of a document, and its first and last + 1 sentence there."""
        if not 0 <= index < self.num_documents:
            raise IndexError(f"document {index} of {self.num_documents}")
        number = int(np.searchsorted(self._starts, index, side="right")) - 1
        shard = self._shard(number)
        local = int(index - self._starts[number])
        return shard, int(shard.documents[local - 1]) if local else 0, int(shard.documents[local])

    def _shard(self, number: int) -> Shard:
        if number in self._open:
            self._open.move_to_end(number)
            return self._open[number]
        shard = map_shard(self.folder, self.facts["shards"][number], self._dtype)
        self._open[number] = shard
        while len(self._open) > MAX_OPEN_SHARDS:
            self._open.popitem(last=False)
        return shard


def map_shard(folder: Path, facts: dict[str, Any], dtype: np.dtype) -> Shard:
    """Map the arrays of one shard; facts: its "name" and numbers of documents, sentences and tokens."""
    path = folder / facts["name"]
    return Shard(
        map_array(path / "tokens.bin", dtype, facts["tokens"]),
        map_array(path / "sentences.bin", OFFSET, facts["sentences"]),
        map_array(path / "documents.bin", OFFSET, facts["documents"]),
    )


def _document_lengths(shard: Shard) -> np.ndarray:
    """Tokens of each document of a shard: int64 [documents]."""
    return np.diff(shard.sentences[shard.documents - 1], prepend=0)
