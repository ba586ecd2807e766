"""Prepares a corpus: tokenizes text into shards. An interrupted preparation resumes after its last finished shard.

Documents are read in order, exact duplicates are removed, and the others are tokenized in parallel batches and written
in their original order. Every shard records the corpus position after its last document, so a resumed preparation
produces the same bytes as an uninterrupted one. `shards.json` is written last: a folder with it is complete.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ..core import storage
from ..core.config import differences
from ..core.errors import CorruptFileError, InputError, RowError, RunError
from ..core.progress import note, track
from ..core.util import usable_cores
from ..text.formats.files import HUB, STDIN
from ..text.readers.corpus import CorpusFacts, Document, Source, corpus_files, finish, read_file
from ..text.tokenizers.tokenizer import Tokenizer
from .shards import (
    COUNTS,
    FACTS,
    FORMAT,
    OFFSET,
    UNFINISHED,
    TokenShards,
    map_shard,
    read_facts,
    shard_name,
    token_dtype,
    tokenizer_sha256,
)

# -- Reads batches of new documents for a preparation, with their positions in the corpus ----------------------------


# Characters tokenized at a time: larger texts are slower, because their tokens exceed the CPU cache.
BATCH_CHARACTERS = 1 << 19
BATCH_DOCUMENTS = 1 << 13


@dataclass(frozen=True)
class CorpusPosition:
    """A position in a corpus: before document `document` of `file`; before: the counts at the start of the file."""

    file: int
    document: int
    before: CorpusFacts

    def to_dict(self) -> dict[str, Any]:
        """Converts to plain values."""
        return {"file": self.file, "document": self.document, "before": asdict(self.before)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> CorpusPosition:
        """Restores from `to_dict`."""
        before = dict(values["before"])
        bad_rows = [RowError(**row) for row in before.pop("bad_rows")]
        return cls(values["file"], values["document"], CorpusFacts(**before, bad_rows=bad_rows))


@dataclass
class Batch:
    """Documents to tokenize.

    sentences: of all documents, concatenated; sizes: sentences per document; digests: per document, concatenated (empty
    if duplicates are kept); text_bytes, duplicates: per document, its UTF-8 size and the number of duplicates removed
    just before it; places: position after each document.
    """

    sentences: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    text_bytes: list[int] = field(default_factory=list)
    duplicates: list[int] = field(default_factory=list)
    places: list[CorpusPosition] = field(default_factory=list)


class Reader:
    """Reads a corpus from a position; seen: digests of the documents before it (None: keep duplicates)."""

    def __init__(self, names: list[str], text_field: str, split_lines: bool, seen: SeenDigests | None) -> None:
        self.names, self.text_field, self.split_lines, self.seen = names, text_field, split_lines, seen
        self.facts = CorpusFacts()
        self.trailing_duplicates = 0
        self.start = CorpusPosition(0, 0, CorpusFacts())

    def go_to(self, place: dict[str, Any]) -> None:
        """Sets the start position from a shard's record."""
        self.start = CorpusPosition.from_dict(place)
        self.facts = self.start.before.copy()

    def batches(self) -> Iterator[Batch]:
        """Yields the documents from the start to the end of the corpus, without duplicates."""
        waiting: list[tuple[Document, CorpusPosition]] = []
        characters = 0
        for document, place in self._documents():
            waiting.append((document, place))
            characters += sum(map(len, document.sentences))
            if characters >= BATCH_CHARACTERS or len(waiting) >= BATCH_DOCUMENTS:
                yield from self._batch(waiting)
                waiting, characters = [], 0
        yield from self._batch(waiting)

    def finish(self, skip_bad_rows: bool) -> None:
        """Raises RowErrors or InputError if the corpus as a whole is invalid."""
        finish(self.facts, self.names, skip_bad_rows)

    def _documents(self) -> Iterator[tuple[Document, CorpusPosition]]:
        """Yields each document with the position after it; the counts of a partly read file restart at 0."""
        for number in range(self.start.file, len(self.names)):
            before = self.facts.copy()
            to_skip = self.start.document if number == self.start.file else 0
            documents = read_file(self.names[number], self.text_field, self.split_lines, self.facts)
            for index, document in enumerate(documents):
                if index >= to_skip:
                    yield document, CorpusPosition(number, index + 1, before)

    def _batch(self, waiting: list[tuple[Document, CorpusPosition]]) -> Iterator[Batch]:
        """Yields the batch of new documents in `waiting`, if any."""
        found = Batch()
        for document, place in waiting:
            value, size = digest(document.sentences)
            found.sentences += document.sentences
            found.sizes.append(len(document.sentences))
            found.digests.append(value)
            found.text_bytes.append(size)
            found.places.append(place)
        batch, _ = self.only_new(found)
        if batch.places:
            yield batch

    def only_new(self, found: Batch) -> tuple[Batch, list[bool]]:
        """Removes duplicates from consecutive documents. Returns the others, and for each document whether it is new.

        found: without `duplicates`; it may have no `sentences`, if they are tokenized already.
        """
        fresh = [True] * len(found.sizes) if self.seen is None else self.seen.add(found.digests)
        batch = Batch()
        first = 0
        for index, (is_new, size) in enumerate(zip(fresh, found.sizes, strict=True)):
            if is_new:
                batch.sentences += found.sentences[first : first + size]
                batch.sizes.append(size)
                batch.digests.append(found.digests[index])
                batch.text_bytes.append(found.text_bytes[index])
                batch.duplicates.append(self.trailing_duplicates)
                batch.places.append(found.places[index])
            self.trailing_duplicates = 0 if is_new else self.trailing_duplicates + 1
            first += size
        return batch, fresh


# -- Writes the tokens of a preparation to shards, each complete or absent -------------------------------------------


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


def seal(folder: Path, writer: ShardWriter, tokenizer: Tokenizer, recipe: dict[str, Any], reader: Reader) -> None:
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


SHARD_TOKENS = 1 << 24
MOST_WORKERS = 8  # a single reader thread cannot feed more
_WORK = "work"
Encoded = tuple[Batch, np.ndarray, np.ndarray]
"""New documents, all their tokens [tokens], and the number of tokens per sentence, int64 [sentences]."""


def prepare(
    sources: Source,
    tokenizer: Tokenizer,
    folder: Path | str,
    *,
    text_field: str = "text",
    split_lines: bool = False,
    keep_duplicates: bool = False,
    skip_bad_rows: bool = False,
    shard_tokens: int = SHARD_TOKENS,
    joint: str = "",
    restart: bool = False,
) -> TokenShards:
    """Tokenizes a corpus into `folder`; resumes an interrupted call, or opens a finished one.

    Args:
        sources, text_field, split_lines: See `text.readers.corpus.read_documents`.
        keep_duplicates: Keep exact duplicates of documents.
        skip_bad_rows: Skip invalid rows instead of raising RowErrors at the end.
        shard_tokens: A shard ends with the document that reaches this size.
        joint: Separator between the sentences of a document, for tokenizers that preserve whitespace.
        restart: Discard existing results.

    Raises RunError if the folder contains a preparation of other text or settings, and the errors of `read_documents`.
    An unfinished preparation of other text is discarded, with a note.
    """
    names = corpus_files(sources)
    folder = Path(folder)
    settings = settings_of(text_field, split_lines, keep_duplicates, shard_tokens, joint)
    with storage.lock(folder):
        recipe = recipe_of(tokenizer, settings, map(identity, names))
        pipes = [name for name in names if name == STDIN or not (name.startswith(HUB) or Path(name).is_file())]
        read = partial(Reader, names, text_field, split_lines)
        return write_shards(
            folder, tokenizer, recipe, read, _encoded, skip_bad_rows=skip_bad_rows, restart=restart, pipes=pipes
        )


def settings_of(
    text_field: str, split_lines: bool, keep_duplicates: bool, shard_tokens: int, joint: str
) -> dict[str, Any]:
    """The settings that decide the content of the shards, as `shards.json` records them."""
    settings = {
        "text_field": text_field,
        "split_lines": split_lines,
        "keep_duplicates": keep_duplicates,
        "shard_tokens": shard_tokens,
    }
    return settings | ({"joint": joint} if joint else {})


def recipe_of(tokenizer: Tokenizer, settings: dict[str, Any], sources: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What is prepared, from what and how. sources: see `identity`."""
    return {"tokenizer_sha256": tokenizer_sha256(tokenizer), "settings": settings, "sources": list(sources)}


def write_shards(
    folder: Path,
    tokenizer: Tokenizer,
    recipe: dict[str, Any],
    read: Callable[[SeenDigests | None], Reader],
    encode: Callable[[Reader, Tokenizer, str, np.dtype], Iterator[Encoded]],
    *,
    skip_bad_rows: bool,
    restart: bool = False,
    pipes: Sequence[str] = (),
) -> TokenShards:
    """Writes the shards of a corpus into `folder`, whose lock the caller holds; resumes, or opens finished ones.

    read: makes the reader; encode: yields its batches of new documents with their tokens, for a tokenizer, a separator
    of sentences (`joint`) and a type of numbers; pipes: sources that cannot be read twice.
    """
    storage.remove_leftovers(folder)
    if restart:
        _discard(folder)
    if not (folder / FACTS).is_file():
        _begin(folder, recipe, pipes)
        _Preparation(folder, tokenizer, recipe, read).run(encode, skip_bad_rows)
    else:
        check_finished(folder, recipe)
    _clean(folder)
    return TokenShards.open(folder, tokenizer, verify=False)


def identity(name: str) -> dict[str, Any]:
    """Identifies a source; a pipe, which can be read only once, is identified by name."""
    if name == STDIN or name.startswith(HUB) or not Path(name).is_file():
        return {"name": name}
    return {"name": name, "bytes": Path(name).stat().st_size, "sha256": storage.input_sha256(name)}


def contents(sources: Sequence[dict[str, Any]]) -> list[str]:
    """What is compared of sources: the content of files, not their names."""
    return [source.get("sha256", source["name"]) for source in sources]


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """Describes how `new` differs from the recipe `old`; files are identified by content, not name."""
    if old["tokenizer_sha256"] != new["tokenizer_sha256"]:
        return "the tokenizer differs"
    changed = differences(old["settings"], new["settings"])
    if changed:
        return ", ".join(changed)
    before, after = (contents(recipe["sources"]) for recipe in (old, new))
    if len(before) != len(after):
        return f"the corpus has {len(after)} files, previously {len(before)}"
    for number, (one, other) in enumerate(zip(before, after, strict=True)):
        if one != other:
            return f"{new['sources'][number]['name']} has changed"
    return None


def check_finished(folder: Path, recipe: dict[str, Any]) -> None:
    """Raise RunError if the finished corpus in `folder` was prepared by another recipe."""
    difference = _difference(read_facts(folder), recipe)
    if difference is not None:
        raise RunError(
            f"{folder} contains a corpus prepared differently: {difference}. Choose another folder, or restart."
        )


def _begin(folder: Path, recipe: dict[str, Any], pipes: Sequence[str]) -> None:
    """Keeps in `folder` only the results of an interrupted preparation with the same recipe."""
    path = folder / UNFINISHED
    if path.is_file():
        try:
            difference = _difference(storage.read_checked_json(path), recipe)
        except CorruptFileError as error:
            difference = str(error)
        if difference is None and pipes:
            shown = "standard input" if pipes[0] == STDIN else pipes[0]
            difference = f"{shown} cannot be read twice"
        if difference is None:
            return
        note(f"Restarting the unfinished preparation in {folder}: {difference}.")
    _discard(folder)
    storage.write_checked_json(path, recipe)


def _discard(folder: Path) -> None:
    (folder / FACTS).unlink(missing_ok=True)
    (folder / UNFINISHED).unlink(missing_ok=True)
    for path in sorted(folder.glob("shard-*"), reverse=True):
        storage.remove_folder(path)


def _clean(folder: Path) -> None:
    (folder / UNFINISHED).unlink(missing_ok=True)
    storage.remove_folder(folder / _WORK)


class _Preparation:
    """One preparation, from the last finished shard (or the beginning) to the end."""

    def __init__(
        self,
        folder: Path,
        tokenizer: Tokenizer,
        recipe: dict[str, Any],
        read: Callable[[SeenDigests | None], Reader],
    ) -> None:
        self.folder, self.tokenizer, self.recipe = folder, tokenizer, recipe
        storage.remove_folder(folder / _WORK)
        settings = recipe["settings"]
        seen = None if settings["keep_duplicates"] else SeenDigests(folder / _WORK)
        self.writer = ShardWriter(folder, tokenizer.vocab_size, settings["shard_tokens"])
        self.reader = read(seen)
        self._resume(seen)

    def _resume(self, seen: SeenDigests | None) -> None:
        """Loads the finished shards; a damaged one and those after it are rebuilt."""
        while (path := self.folder / shard_name(len(self.writer.finished))).is_dir():
            try:
                storage.verify_folder(path)
                state = read_state(path)
            except CorruptFileError as error:
                note(f"{error} Rebuilding this shard and those after it.")
                break
            if seen is not None:
                seen.restore((path / "digests.bin").read_bytes())
            self.writer.finished.append(state)
        count = len(self.writer.finished)
        for path in sorted(self.folder.glob("shard-*"), reverse=True):
            if path.name >= shard_name(count):
                storage.remove_folder(path)
        if count:
            self.reader.go_to(self.writer.finished[-1]["next"])
            note(f"Resuming the preparation after {count} finished shards.")

    def run(self, encode: Callable[[Reader, Tokenizer, str, np.dtype], Iterator[Encoded]], skip_bad_rows: bool) -> None:
        """Writes the whole corpus, then finalizes the folder."""
        megabytes = sum(source.get("bytes", 0) for source in self.recipe["sources"]) / 1e6 or None
        joint = self.recipe["settings"].get("joint", "")
        facts = self.reader.facts
        with track("Preparing the corpus", megabytes, "MB") as progress:
            for batch, tokens, lengths in encode(self.reader, self.tokenizer, joint, self.writer.dtype):
                self.writer.add(batch, tokens, lengths)
                progress.update(
                    facts.file_bytes / 1e6, f"{facts.documents:,} documents, {self.writer.num_tokens:,} tokens"
                )
        self.reader.finish(skip_bad_rows)
        self.writer.close_last()
        if not self.writer.finished:
            raise InputError("The corpus contains no text with tokens: there is nothing to prepare.")
        seal(self.folder, self.writer, self.tokenizer, self.recipe, self.reader)


def _encoded(reader: Reader, tokenizer: Tokenizer, joint: str, dtype: np.dtype) -> Iterator[Encoded]:
    """Tokenizes the batches of a reader in threads, in order."""
    workers = min(usable_cores(), MOST_WORKERS)
    waiting: deque[tuple[Batch, Future[tuple[np.ndarray, np.ndarray]]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for batch in reader.batches():
            waiting.append((batch, pool.submit(encode_batch, batch, tokenizer, joint, dtype)))
            if len(waiting) > workers:  # limits the batches in memory
                first, tokens = waiting.popleft()
                yield first, *tokens.result()
        for first, tokens in waiting:
            yield first, *tokens.result()


def encode_batch(batch: Batch, tokenizer: Tokenizer, joint: str, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Returns all tokens of a batch [tokens], and the number of tokens per sentence, int64 [sentences]."""
    ids = tokenizer.encode_plain(joined(batch, joint))
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    tokens = np.fromiter(chain.from_iterable(ids), dtype=dtype, count=int(lengths.sum()))
    return tokens, lengths


def joined(batch: Batch, joint: str) -> list[str]:
    """Returns the sentences of a batch, with `joint` before all but the first of each document."""
    if not joint:
        return batch.sentences
    is_first = np.zeros(len(batch.sentences), dtype=bool)
    ends = np.cumsum([0, *batch.sizes])[:-1]
    is_first[ends[ends < len(is_first)]] = True
    return [text if first else joint + text for text, first in zip(batch.sentences, is_first.tolist(), strict=True)]


# -- Exact duplicate texts, found in bounded memory --------------------------------------------------------------------
#
# Texts are identified by their BLAKE2b-128 digests. Recent digests are in a set; each full set becomes a sorted file,
# and batches of digests are looked up in all files. The files can be rebuilt from the digests in the shards, so they
# need not survive a crash.


DIGEST_BYTES = 16
RUN_SIZE = 1 << 20  # a set of a million digests takes about 100 MB

_HALF = np.dtype("<u8")


def digest(sentences: tuple[str, ...]) -> tuple[bytes, int]:
    """Returns the digest of a document (one sentence per line) and its size in UTF-8 bytes."""
    data = "\n".join(sentences).encode("utf-8")
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest(), len(data)


class SeenDigests:
    """A growing set of digests with at most `run_size` in memory; folder: location of the sorted files."""

    def __init__(self, folder: Path, run_size: int = RUN_SIZE) -> None:
        self.folder, self.run_size = folder, run_size
        self.recent: set[bytes] = set()
        self.runs: list[Path] = []

    def add(self, digests: list[bytes]) -> list[bool]:
        """Adds digests; returns for each whether it is new (neither added before nor earlier in the list)."""
        known = self._in_runs(digests)
        fresh = []
        for value, is_known in zip(digests, known, strict=True):
            is_new = not is_known and value not in self.recent
            fresh.append(is_new)
            if is_new:
                self.recent.add(value)
        if len(self.recent) >= self.run_size:
            self._flush()
        return fresh

    def restore(self, digests: bytes) -> None:
        """Adds new digests, concatenated."""
        for start in range(0, len(digests), DIGEST_BYTES):
            self.recent.add(digests[start : start + DIGEST_BYTES])
        if len(self.recent) >= self.run_size:
            self._flush()

    def _in_runs(self, digests: list[bytes]) -> list[bool]:
        known = np.zeros(len(digests), dtype=bool)
        wanted = _halves(b"".join(digests))
        order = np.argsort(wanted[0])  # sorted look-ups access a file sequentially
        for path in self.runs:  # one memory map at a time limits resident memory to one file
            ordered = np.memmap(path, _HALF, mode="r").view(np.ndarray).reshape(2, -1)
            known[order] |= _contains(ordered, wanted[:, order])
        return known.tolist()

    def _flush(self) -> None:
        halves = _halves(b"".join(self.recent))
        path = self.folder / f"digests-{len(self.runs):05d}.bin"
        storage.write_bytes(path, halves[:, np.lexsort(halves[::-1])].tobytes())
        self.runs.append(path)
        self.recent = set()


def _halves(data: bytes) -> np.ndarray:
    """Splits concatenated digests into uint64 [2, digests]: the first eight bytes of each, then the last eight."""
    return np.frombuffer(data, dtype=_HALF).reshape(-1, 2).T


def _contains(ordered: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Which digests of `wanted` are in `ordered`, which is sorted by first half, then by second: bool [wanted]."""
    first, second = ordered
    place = np.searchsorted(first, wanted[0])
    hit = np.zeros(wanted.shape[1], dtype=bool)
    same_half = first[np.minimum(place, len(first) - 1)] == wanted[0]
    for index in np.flatnonzero(same_half):  # nearly all of these are true duplicates
        end = np.searchsorted(first, wanted[0, index], side="right")
        hit[index] = wanted[1, index] in second[place[index] : end]
    return hit
