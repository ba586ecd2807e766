"""Writes the tokens of a preparation to shards, each complete or absent."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from ..core import storage
from .reading import Batch, CorpusPosition, Reader
from .shards import COUNTS, FACTS, FORMAT, OFFSET, PlainTokenizer, map_shard, shard_name, token_dtype

_STATE = "facts.json"
_COUNTED_AT_ONCE = 1 << 20  # tokens


class ShardWriter:
    """Collects documents into shards of at least `shard_tokens` tokens; finished: the records of written shards."""

    def __init__(self, folder: Path, vocab_size: int, shard_tokens: int) -> None:
        self.folder, self.shard_tokens = folder, shard_tokens
        self.dtype = token_dtype(vocab_size)
        self.finished: list[dict[str, Any]] = []
        self._begin()

    @property
    def num_tokens(self) -> int:
        """Number of tokens so far."""
        count: int = sum(facts["tokens"] for facts in self.finished) + self._size
        return count

    def _begin(self) -> None:
        self._tokens: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []  # tokens of each sentence, without empty ones
        self._sizes: list[np.ndarray] = []  # sentences of each document, without empty ones
        self._digests: list[bytes] = []
        self._counts = {"duplicates": 0, "empty_documents": 0, "empty_sentences": 0, "bytes": 0}
        self._size = 0
        self._place: CorpusPosition | None = None

    def add(self, batch: Batch, tokens: np.ndarray, lengths: np.ndarray) -> None:
        """Adds a batch. tokens: [tokens]; lengths: int64 [sentences], tokens of each sentence."""
        ends = np.cumsum(batch.sizes)  # of each document, in sentences
        token_ends = np.concatenate([[0], np.cumsum(lengths)])
        document_ends = token_ends[ends]  # of each document, in tokens
        first = 0
        while first < len(ends):
            begin = int(document_ends[first - 1]) if first else 0
            missing = self.shard_tokens - self._size
            last = min(int(np.searchsorted(document_ends, begin + missing)) + 1, len(ends))
            sentences = slice(int(ends[first - 1]) if first else 0, int(ends[last - 1]))
            end = int(document_ends[last - 1])
            self._take(batch, slice(first, last), tokens[begin:end], lengths[sentences])
            if self._size >= self.shard_tokens:
                self._write()
            first = last

    def close_last(self) -> None:
        """Writes the remaining documents as the last shard."""
        if self._size:
            self._write()

    def leftover(self) -> dict[str, int]:
        """Counts outside of any shard: empty documents after the last one."""
        return self._counts

    def _take(self, batch: Batch, documents: slice, tokens: np.ndarray, lengths: np.ndarray) -> None:
        """Adds the documents `documents` of a batch to the current shard."""
        sizes = np.asarray(batch.sizes[documents])
        owner = np.repeat(np.arange(len(sizes)), sizes)  # document of each sentence
        filled = np.bincount(owner[lengths > 0], minlength=len(sizes))  # sentences that have tokens
        self._tokens.append(tokens)
        self._lengths.append(lengths[lengths > 0])
        self._sizes.append(filled[filled > 0])
        self._digests += batch.digests[documents]
        self._counts["duplicates"] += sum(batch.duplicates[documents])
        self._counts["empty_documents"] += int((filled == 0).sum())
        self._counts["empty_sentences"] += int((lengths == 0).sum())
        self._counts["bytes"] += sum(batch.text_bytes[documents])
        self._size += len(tokens)
        self._place = batch.places[documents][-1]

    def _write(self) -> None:
        assert self._place is not None
        sizes, lengths = np.concatenate(self._sizes), np.concatenate(self._lengths)
        name = shard_name(len(self.finished))
        facts: dict[str, Any] = {
            "name": name,
            "documents": len(sizes),
            "sentences": len(lengths),
            "tokens": self._size,
            **self._counts,
            "next": self._place.to_dict(),
        }
        with storage.new_folder(self.folder / name) as path:
            storage.write_bytes(path / "tokens.bin", np.concatenate(self._tokens).tobytes())
            storage.write_bytes(path / "sentences.bin", np.cumsum(lengths).astype(OFFSET).tobytes())
            storage.write_bytes(path / "documents.bin", np.cumsum(sizes).astype(OFFSET).tobytes())
            storage.write_bytes(path / "digests.bin", b"".join(self._digests))
            storage.write_json(path / _STATE, facts)
        self.finished.append(facts)
        self._begin()


def read_state(path: Path) -> dict[str, Any]:
    """Reads the record of a finished shard."""
    facts: dict[str, Any] = storage.read_json(path / _STATE)
    return facts


def seal(folder: Path, writer: ShardWriter, tokenizer: PlainTokenizer, recipe: dict[str, Any], reader: Reader) -> None:
    """Computes totals over all shards and writes `shards.json`, which marks the preparation as finished."""
    counts = np.zeros(tokenizer.vocab_size, dtype=OFFSET)
    longest_sentence = longest_document = 0
    for facts in writer.finished:
        shard = map_shard(folder, facts, writer.dtype)
        for start in range(0, len(shard.tokens), _COUNTED_AT_ONCE):  # it makes int64 of them
            counts += np.bincount(shard.tokens[start : start + _COUNTED_AT_ONCE], minlength=len(counts))
        lengths = np.diff(shard.sentences, prepend=0)
        longest_sentence = max(longest_sentence, int(lengths.max()))
        longest_document = max(longest_document, int(np.diff(shard.sentences[shard.documents - 1], prepend=0).max()))
    storage.write_bytes(folder / COUNTS, counts.tobytes())
    leftover = writer.leftover()
    totals = {
        name: sum(facts[name] for facts in writer.finished) + leftover.get(name, 0)
        for name in ("documents", "sentences", "tokens", "bytes", "duplicates", "empty_documents", "empty_sentences")
    }
    totals["duplicates"] += reader.trailing_duplicates
    read = reader.facts.counts()
    storage.write_checked_json(
        folder / FACTS,
        {
            "format": FORMAT,
            "vocab_size": tokenizer.vocab_size,
            "unk_id": tokenizer.unk_id,
            **recipe,
            "counts": {
                **totals,
                "unknown_tokens": int(counts[tokenizer.unk_id]) if tokenizer.unk_id is not None else 0,
                "vocabulary_used": int((counts > 0).sum()),
                "longest_sentence": longest_sentence,
                "longest_document": longest_document,
                "documents_read": read["documents"],
                "characters_read": read["characters"],
                **{name: read[name] for name in ("files", "skipped_rows", "cut_sentences", "cut_documents")},
            },
            "unigram_counts_sha256": hashlib.sha256(counts.tobytes()).hexdigest(),
            "shards": [_entry(folder, facts) for facts in writer.finished],
        },
    )


def _entry(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    manifest = folder / facts["name"] / storage.MANIFEST
    kept = {name: facts[name] for name in ("name", "documents", "sentences", "tokens")}
    return {**kept, "manifest_sha256": storage.sha256(manifest)}
