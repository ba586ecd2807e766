"""Semantic search in files: ranks passages by cosine similarity to the query.

The search is exact and runs block by block, so only one block of embeddings is in memory. With an index folder, only
new content is embedded.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core import storage
from ..core.errors import ConfigError, InputError, RowErrors
from ..core.plural import plural
from ..core.progress import note, track, warn
from ..text.formats.files import HUB, STDIN
from ..text.readers.corpus import Source, corpus_files, file_size
from ..text.readers.passages import Passage, bad_rows_of, read_passages
from ..text.sentences import sentence_spans
from .embed import TextEncoder
from .search_index import SearchIndex, about_vectors, discard

BLOCK_PASSAGES = 512  # passages per block, sorted by length
SHARD_BYTES = 1 << 20  # approximate text size of a shard
PASSAGE_TOKENS = 128

Named = tuple[str, Passage]


@dataclass(frozen=True)
class Hit:
    """A search result.

    score: cosine similarity to the query; sentence: start and end, in the source, of the passage's sentence closest to
    the query.
    """

    score: float
    file: str
    passage: Passage
    sentence: tuple[int, int]

    def to_json(self) -> dict[str, Any]:
        """Return the output of `search --json`."""
        passage = self.passage
        return {
            "score": self.score,
            "file": self.file,
            "line": passage.line,
            "start": passage.start,
            "end": passage.end,
            "text": passage.text,
            "sentence": {"start": self.sentence[0], "end": self.sentence[1]},
        }


class Searcher:
    """Searches the passages of files.

    encoder: a text encoder with pooling; passage_tokens: maximum tokens per passage, limited by the encoder;
    text_field: text column of tables. embedded, unchanged: number of files in the last `search`.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        *,
        passage_tokens: int = PASSAGE_TOKENS,
        text_field: str = "text",
        skip_bad_rows: bool = False,
        batch_tokens: int | None = None,
    ) -> None:
        if passage_tokens < 1:
            raise ConfigError(f"passage_tokens is {passage_tokens}; it must be at least 1.")
        special = len(encoder.tokenizer(""))
        self.encoder, self.text_field, self.skip_bad_rows = encoder, text_field, skip_bad_rows
        self.passage_tokens = min(passage_tokens, encoder.max_length - special)
        self.batch_tokens = batch_tokens
        self.embedded = self.unchanged = self.passages = 0

    def search(
        self,
        source: Source,
        queries: Sequence[str],
        top_k: int = 5,
        index: Path | str | None = None,
        *,
        restart: bool = False,
    ) -> list[list[Hit]]:
        """Return the `top_k` best passages for each query, best first.

        source: a folder, files or a glob pattern; index: folder that stores the embeddings; restart: rebuild it. Raises
        RowErrors for invalid rows before anything is embedded, RunError for the index of another model.
        """
        if not queries or not all(query.strip() for query in queries):
            raise InputError("A query is empty: pass some text.")
        if top_k < 1:
            raise ConfigError(f"top_k is {top_k}; it must be at least 1.")
        names = self._names(source, index)
        best = _Best(_unit(self.encoder.vectors(list(queries))), top_k)
        if index is None:
            self._check(names)
            for block, vectors in self._embed(names):
                best.offer([name for name, _ in block], [passage for _, passage in block], vectors)
            self.embedded, self.unchanged = len(names), 0
            found = best.ranked()
        else:
            with storage.lock(index):
                storage.remove_leftovers(index)
                if restart:
                    discard(Path(index))
                found = self._search_index(Path(index), names, best)
        if not self.passages:
            raise InputError("The files contain no text to search.")
        return [[self._hit(query, *entry) for entry in entries] for query, entries in zip(queries, found, strict=True)]

    def _names(self, source: Source, index: Path | str | None) -> list[str]:
        names = corpus_files(source)
        if any(name == STDIN or name.startswith(HUB) for name in names):
            raise InputError("search requires files: pass a folder, files or a pattern.")
        if index is not None:
            inside = Path(index).resolve()
            names = [name for name in names if not Path(name).resolve().is_relative_to(inside)]
        return names

    def _check(self, names: Sequence[str]) -> None:
        bad = [error for name in names for error in bad_rows_of(name, self.text_field)]
        if bad and not self.skip_bad_rows:
            raise RowErrors(bad)
        if bad:
            warn(f"Skipped {plural(len(bad), 'invalid row', 'invalid rows')}.")

    def _embed(self, names: Sequence[str]) -> Iterator[tuple[list[Named], np.ndarray]]:
        """Yield passages in blocks with normalized embeddings, float32 [block, size], and report progress."""
        total, done, count = sum(map(file_size, names)), 0, 0
        started = time.monotonic()
        with track("embedding", total, "bytes") as progress:
            block: list[Named] = []
            for name in names:
                size, read = file_size(name), 0
                for passage in read_passages(
                    name, self.encoder.tokenizer, self.passage_tokens, text_field=self.text_field
                ):
                    block.append((name, passage))
                    read += len(passage.text)
                    if len(block) == BLOCK_PASSAGES:
                        yield block, self._vectors(block)
                        count += len(block)
                        rate = count / (time.monotonic() - started)
                        progress.update(done + min(read, size), f"{count:,} passages, {rate:,.0f}/s")
                        block = []
                done += size
            if block:
                yield block, self._vectors(block)
                count += len(block)
        self.passages += count

    def _vectors(self, block: Sequence[Named]) -> np.ndarray:
        return _unit(self.encoder.vectors([passage.text for _, passage in block], self.batch_tokens))

    def _search_index(self, folder: Path, names: Sequence[str], best: _Best) -> list[list[_Found]]:
        index = SearchIndex(folder, about_vectors(self.encoder, self.passage_tokens, self.text_field))
        digests = {name: storage.sha256(name) for name in names}
        known = index.by_content()
        new: dict[str, str] = {}
        for name, digest in digests.items():
            if digest in known:
                index.entries[name] = known[digest]
            elif digest not in new.values():
                new[name] = digest
        self.embedded, self.unchanged = len(new), len(names) - len(new)
        self._check(list(new))
        for group in _groups(list(new)):
            index.add({name: new[name] for name in group}, self._embed(group))
        known = index.by_content()
        index.entries.update({name: known[digest] for name, digest in digests.items()})
        removed = index.keep_only(names)
        index.save()
        self.passages = sum(entry.count for entry in index.entries.values())
        note(
            f"index {folder}: {self.passages:,} passages of {len(names):,} files; {self.embedded:,} files embedded, "
            f"{self.unchanged:,} unchanged, {removed:,} removed."
        )
        seen: set[tuple[str, int]] = set()
        for name, shard, start, vectors in index.blocks():
            if (shard, start) not in seen:  # files with the same content share embeddings and are listed once
                seen.add((shard, start))
                best.offer([name] * len(vectors), [(shard, start + row) for row in range(len(vectors))], vectors)
        found = best.ranked()
        wanted: dict[str, list[int]] = {}
        for entries in found:
            for _, _, (shard, row) in entries:
                wanted.setdefault(shard, []).append(row)
        passages = {shard: index.passages(shard, rows) for shard, rows in wanted.items()}
        return [[(score, name, passages[shard][row]) for score, name, (shard, row) in entries] for entries in found]

    def _hit(self, query: str, score: float, file: str, passage: Passage) -> Hit:
        spans = sentence_spans(passage.text)
        if len(spans) > 1:
            texts = [query, *(passage.text[start:end] for start, end in spans)]
            vectors = _unit(self.encoder.vectors(texts, self.batch_tokens))
            spans = [spans[int((vectors[1:] @ vectors[0]).argmax())]]
        start, end = spans[0] if spans else (0, len(passage.text))
        return Hit(score, file, passage, (passage.start + start, passage.start + end))


_Found = tuple[float, str, Any]


class _Best:
    """The best passages of each query so far; ties keep the first."""

    def __init__(self, queries: np.ndarray, top_k: int) -> None:
        self.queries, self.top_k = queries, top_k
        self.heaps: list[list[tuple[float, int, str, Any]]] = [[] for _ in queries]
        self.offered = 0

    def offer(self, names: Sequence[str], places: Sequence[Any], vectors: np.ndarray) -> None:
        """Add passages with their file names and normalized embeddings, float32 [passages, size]."""
        cosines = self.queries @ vectors.T  # [queries, passages]
        for heap, row in zip(self.heaps, cosines, strict=True):
            for place in np.argsort(-row, kind="stable")[: self.top_k].tolist():
                entry = (float(row[place]), -(self.offered + place), names[place], places[place])
                if len(heap) < self.top_k:
                    heapq.heappush(heap, entry)
                elif entry[:2] > heap[0][:2]:
                    heapq.heapreplace(heap, entry)
        self.offered += len(places)

    def ranked(self) -> list[list[_Found]]:
        """Return (score, file, passage) for each query, best first."""
        return [[(score, name, place) for score, _, name, place in sorted(heap, key=_order)] for heap in self.heaps]


def _order(entry: tuple[float, int, str, Any]) -> tuple[float, int]:
    return (-entry[0], -entry[1])


def _unit(vectors: np.ndarray) -> np.ndarray:
    unit: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit


def _groups(names: Sequence[str]) -> Iterator[list[str]]:
    """Group consecutive files of SHARD_BYTES in total; a larger file is a separate group."""
    group: list[str] = []
    size = 0
    for name in names:
        group.append(name)
        size += file_size(name)
        if size >= SHARD_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
