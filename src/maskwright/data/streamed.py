"""Token shards of an object store: each shard is downloaded when it is needed, into a bounded cache on this machine.

    cache/.lock                     held for moments, to find, map and remove shards
    cache/CORPUS/shards.json        CORPUS is a digest of the address and of shards.json
    cache/CORPUS/shard-00000/       a downloaded shard: complete and verified, or absent
    cache/CORPUS/lengths/shard-…    int64 [documents]: tokens of each document of a shard

The processes of a machine share the cache. The shards that were not used for the longest time are removed first; a
process that still reads a removed shard keeps its files until it is done.

Training reads a large corpus window by window, because the documents of a batch are random and would otherwise need all
shards at once.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core import locking, storage
from ..core.errors import CorruptFileError, InputError, MissingFileError
from ..core.object_store import reading, storage_errors
from ..core.util import cache_folder
from ..text.tokenizers.tokenizer import Tokenizer
from .shards import (
    COUNTS,
    FACTS,
    OFFSET,
    PREPARE_AGAIN,
    Shard,
    TokenShards,
    check_tokenizer,
    document_lengths,
    map_array,
    map_shard,
    read_facts,
    shard_name,
)

WINDOW_TOKENS = 1 << 27  # of neighboring shards, whose documents are shuffled together
_INDEX = ("sentences.bin", "documents.bin")
_DIGEST_BYTES = 16  # of a document
_CHUNK_BYTES = 1 << 20


class ShardCache:
    """The downloaded shards of one corpus. uri: its address; limit: bytes of the shards of all corpora together."""

    def __init__(self, uri: str, limit: float) -> None:
        self.uri, self.limit, self.root = uri, limit, cache_folder("shards")
        try:
            content = _read(f"{uri}/{FACTS}")
        except MissingFileError:
            raise MissingFileError(
                f"{uri} contains no token shards: {FACTS} is missing. Make them with maskwright scale prepare -o {uri}."
            ) from None
        self.folder = self.root / hashlib.sha256(uri.encode() + b"\0" + content).hexdigest()[:16]
        if not (self.folder / FACTS).is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            storage.write_bytes(self.folder / FACTS, content)
        self.facts = read_facts(self.folder)
        if [shard["name"] for shard in self.facts["shards"]] != list(map(shard_name, range(len(self.facts["shards"])))):
            raise InputError(f"{uri}/{FACTS} has unknown names of shards. {PREPARE_AGAIN}")

    def shard(self, number: int, dtype: np.dtype) -> Shard:
        """Map a shard, which is downloaded first if it is not in the cache."""
        facts = self.facts["shards"][number]
        path = self.folder / facts["name"]
        while True:
            with locking.waited(self.root / ".lock"):  # nobody removes it meanwhile
                if path.is_dir():
                    os.utime(path)
                    return map_shard(self.folder, facts, dtype)
            self._download(facts)

    def lengths(self, number: int) -> np.ndarray:
        """Tokens of each document of a shard, int64 [documents], for which only its index is downloaded."""
        facts = self.facts["shards"][number]
        path = self.folder / "lengths" / facts["name"]
        with locking.waited(self.folder / f".{facts['name']}.lock"):
            if not path.is_file():
                path.parent.mkdir(exist_ok=True)
                with tempfile.TemporaryDirectory(prefix="maskwright-") as name:
                    self._fetch(facts, Path(name), _INDEX)
                    sentences, documents = (
                        map_array(Path(name, file), OFFSET, facts[file.removesuffix(".bin")]) for file in _INDEX
                    )
                    storage.write_bytes(path, document_lengths(sentences, documents).astype(OFFSET).tobytes())
        return np.array(map_array(path, OFFSET, facts["documents"]))

    def unigram_counts(self) -> np.ndarray:
        """Count of each token: int64 [vocab]."""
        path = self.folder / COUNTS
        if not path.is_file():
            content = _read(f"{self.uri}/{COUNTS}")
            if hashlib.sha256(content).hexdigest() != self.facts["unigram_counts_sha256"]:
                raise CorruptFileError(f"{self.uri}/{COUNTS} has changed since it was written. {PREPARE_AGAIN}")
            storage.write_bytes(path, content)
        return map_array(path, OFFSET, self.facts["vocab_size"])

    def _download(self, facts: dict[str, Any]) -> None:
        """Download and verify a shard, unless another process has just done so."""
        path = self.folder / facts["name"]
        with locking.waited(self.folder / f".{facts['name']}.lock"):
            if path.is_dir():
                return
            with locking.waited(self.root / ".lock"):
                self._make_room(size_of(self.facts, facts))
            with storage.new_folder(path) as new:
                self._fetch(facts, new)

    def _fetch(self, facts: dict[str, Any], folder: Path, names: Sequence[str] | None = None) -> None:
        """Download files of a shard into a folder, and verify them. names: None for all of its manifest."""
        uri = f"{self.uri}/{facts['name']}"
        _copy(f"{uri}/{storage.MANIFEST}", folder / storage.MANIFEST)
        try:
            storage.verify_folder(folder, names=(), manifest_sha256=facts["manifest_sha256"])
            for name in storage.read_manifest(folder) if names is None else names:
                _copy(f"{uri}/{name}", storage.inside(folder, name))
            storage.verify_folder(folder, names=names)
        except CorruptFileError as error:
            reason = str(error).replace(str(folder), uri).split(". ")[0]
            raise CorruptFileError(f"{reason}. {PREPARE_AGAIN}") from None

    def _make_room(self, needed: int) -> None:
        """Remove the shards that were not used for the longest time, of any corpus."""
        shards = sorted(self.root.glob("*/shard-?????"), key=lambda path: path.stat().st_mtime)
        sizes = [sum(file.stat().st_size for file in path.iterdir()) for path in shards]
        excess = sum(sizes) + needed - self.limit
        for path, size in zip(shards, sizes, strict=True):
            if excess <= 0:
                return
            storage.remove_folder(path)
            excess -= size


class StreamedShards(TokenShards):
    """Token shards of an object store. windows: int64 [documents], numbers of the windows; None for a single one."""

    def __init__(self, cache: ShardCache) -> None:
        super().__init__(cache.folder, cache.facts)
        self.cache = cache
        starts = np.cumsum([0, *(shard["tokens"] for shard in self.facts["shards"])])[:-1]
        self.numbers = starts // WINDOW_TOKENS  # the window of each shard
        if len(starts) and self.numbers[-1]:
            self.windows = np.repeat(self.numbers, [shard["documents"] for shard in self.facts["shards"]])

    @classmethod
    def open_remote(cls, uri: str, tokenizer: Tokenizer, gigabytes: float) -> StreamedShards:
        """Opens a prepared corpus in an object store; its shards are verified when they are downloaded.

        gigabytes: limit of the cache. Raises InputError if it cannot contain two windows, MissingFileError without a
        prepared corpus, StorageError without rights or connection.
        """
        shards = cls(ShardCache(uri.rstrip("/"), gigabytes * 1e9))
        check_tokenizer(uri, shards.facts, tokenizer)
        least = shards.least_bytes() / 1e9
        if gigabytes < least:
            raise InputError(
                f"{uri} needs a cache of {least:.2g} GB, and shard_cache is {gigabytes:g}: training reads windows of "
                "shards, of which two must fit."
            )
        return shards

    def least_bytes(self) -> int:
        """Bytes of the two largest neighboring windows."""
        sizes = np.bincount(self.numbers, [size_of(self.facts, shard) for shard in self.facts["shards"]])
        return int(np.sort(sizes)[-2:].sum())

    def document_lengths(self) -> np.ndarray:
        if self._lengths is None:
            parts = [self.cache.lengths(number) for number in range(len(self.facts["shards"]))]
            self._lengths = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        return self._lengths

    def unigram_counts(self) -> np.ndarray:
        return self.cache.unigram_counts()

    def verify(self, deep: bool = True) -> None:
        """Does nothing: shards are verified when they are downloaded."""

    def _map(self, number: int) -> Shard:
        found = self.cache.shard(number, self._dtype)
        # The disk has the space of a removed shard back only when no process maps its files.
        for other in [other for other in self._open if not (self.cache.folder / shard_name(other)).is_dir()]:
            del self._open[other]
        return found


def size_of(facts: dict[str, Any], shard: dict[str, Any]) -> int:
    """Bytes of a shard, about. facts: of the corpus."""
    tokens = shard["tokens"] * (2 if facts["vocab_size"] <= 1 << 16 else 4)
    return int(tokens + 8 * (shard["sentences"] + shard["documents"]) + _DIGEST_BYTES * shard["documents"])


def _read(uri: str) -> bytes:
    with reading(uri) as stream:
        content: bytes = stream.read()
    return content


def _copy(uri: str, path: Path) -> None:
    """Download a file."""
    with reading(uri) as source, storage.open_new(path) as target:
        while True:
            with storage_errors(uri):  # not an error of this disk
                data = source.read(_CHUNK_BYTES)
            if not data:
                return
            storage.fs.write(target, data)
