"""Semantic search in files: ranks passages by cosine similarity to the query, or by MaxSim of late interaction.

The search is exact and runs block by block, so only one block of embeddings is in memory. With an index folder, only
new content is embedded.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import re
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..core import storage
from ..core.errors import ConfigError, CorruptFileError, InputError, RowErrors, RunError
from ..core.progress import note, track, warn
from ..core.util import plural
from ..text.formats.files import HUB, STDIN
from ..text.readers.corpus import Passage, Source, bad_rows_of, corpus_files, file_size, read_passages
from ..text.words import sentence_spans
from .cluster import unit_vectors
from .embed import TextEncoder
from .late import LateEncoder
from .output_files import write_npy

# -- Index folder of a semantic search, which embeds each file content once ------------------------------------------
#
#  index.json           model fingerprint, settings, SHA-256 of each shard's manifest, SHA-256 and passage rows of each
#                       file; with a checksum
#  shards/NAME/         vectors.npy    float32 [passages, size], unit vectors
#                       passages.jsonl the passages, one per line
#                       tokens.json    the number of vectors of each passage, for late interaction: float32
#                                      [tokens, size] then
#                       manifest.json
#
# A shard contains the passages of a few files and never changes; unused shards are removed. index.json is written after
# each shard, so an interrupted build resumes. Every shard is verified against its manifest before it is searched.


INDEX, SHARDS = "index.json", "shards"
VECTORS, PASSAGES, TOKENS = "vectors.npy", "passages.jsonl", "tokens.json"
FORMAT = 2
LIMIT_BYTES = 1 << 30
_SHARD = re.compile("[0-9a-f]{24}")
_SHARD_OF_FORMAT_1 = re.compile(r"[0-9a-f]{24}\.(npy|jsonl)")
BLOCK_ROWS = 8192  # embeddings in memory at once
LATE_ROWS = 512  # passages of late interaction in memory at once
Vectors = np.ndarray | list[np.ndarray]  # of passages: float32 [passages, size], or [tokens, size] each
REBUILD = "Use --restart to build the index again."


@dataclass(frozen=True, slots=True)
class Entry:
    """Location of the passages of a file: rows `start` to `start + count` of a shard."""

    sha256: str
    shard: str
    start: int
    count: int


class SearchIndex:
    """An index folder, with `storage.lock(folder)` held while writing; about: see `about_vectors`.

    Raises RunError for an index of another model or settings, CorruptFileError for a damaged one.
    """

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self.folder, self.about = folder, about
        self.entries: dict[str, Entry] = {}  # by file name
        self.manifests: dict[str, str] = {}  # shard name -> SHA-256 of its manifest
        if (folder / INDEX).is_file():
            self._read()
        else:
            _check_content(folder)

    def _read(self) -> None:
        path = self.folder / INDEX
        stored = storage.read_json(path, LIMIT_BYTES, REBUILD)
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            raise CorruptFileError(f"{path} is damaged, or an index of another version. {REBUILD}")
        stored = storage.read_checked_json(path, REBUILD, LIMIT_BYTES)
        about, files, manifests = (stored.get(name) for name in ("about", "files", "shards"))
        built = about if isinstance(about, dict) else {}
        other = [name for name in {**self.about, **built} if built.get(name) != self.about.get(name)]
        if other:
            what = "another model" if "model" in other else f"other settings ({', '.join(other)})"
            raise RunError(
                f"The index {self.folder} was built with {what}. Use the same again, another --index, or --restart to "
                "rebuild it."
            )
        if not isinstance(files, dict) or not isinstance(manifests, dict):
            raise CorruptFileError(f"{path} is damaged. {REBUILD}")
        if not all(map(_SHARD.fullmatch, manifests)) or not all(_is_entry(one, manifests) for one in files.values()):
            raise CorruptFileError(f"{path} is damaged. {REBUILD}")
        self.entries = {name: Entry(**entry) for name, entry in files.items()}
        self.manifests = manifests

    def by_content(self) -> dict[str, Entry]:
        """Map SHA-256 to an entry, which also finds renamed files."""
        return {entry.sha256: entry for entry in self.entries.values()}

    def add(self, files: Mapping[str, str], blocks: Iterable[tuple[list[tuple[str, Passage]], Vectors]]) -> None:
        """Write one shard: name -> SHA-256 of its files, and blocks of (file name, passage) with their embeddings."""
        shard = hashlib.sha256("".join(files.values()).encode()).hexdigest()[:24]
        folder = self.folder / SHARDS / shard
        counts = dict.fromkeys(files, 0)
        tokens: list[int] = []
        storage.remove_folder(folder)  # left by an interrupted build
        with storage.new_folder(folder) as new, storage.open_new(new / PASSAGES) as lines:

            def vectors() -> Iterator[np.ndarray]:
                for passages, found in blocks:
                    for name, passage in passages:
                        counts[name] += 1
                        line = json.dumps(asdict(passage), ensure_ascii=False) + "\n"
                        storage.fs.write(lines, line.encode("utf-8"))
                    tokens.extend(map(len, found) if isinstance(found, list) else ())
                    yield np.concatenate(found) if isinstance(found, list) else found

            write_npy(new / VECTORS, vectors(), self.about["size"])
            if tokens:
                storage.write_json(new / TOKENS, tokens)
        start = 0
        for name, digest in files.items():
            self.entries[name] = Entry(digest, shard, start, counts[name])
            start += counts[name]
        self.manifests[shard] = storage.sha256(folder / storage.MANIFEST)
        self.save()

    def keep_only(self, names: Sequence[str]) -> int:
        """Remove the entries of missing files and unused shards; returns the number of removed entries."""
        gone = set(self.entries) - set(names)
        self.entries = {name: entry for name, entry in self.entries.items() if name not in gone}
        needed = {entry.shard for entry in self.entries.values()}
        self.manifests = {shard: digest for shard, digest in self.manifests.items() if shard in needed}
        unneeded = [path for path in _shards(self.folder) if path.name not in needed]
        if gone or unneeded:
            self.save()
            for path in unneeded:
                storage.remove_folder(path) if path.is_dir() else path.unlink()
        return len(gone)

    def save(self) -> None:
        files = {name: asdict(entry) for name, entry in sorted(self.entries.items())}
        index = {"format": FORMAT, "about": self.about, "shards": self.manifests, "files": files}
        storage.write_checked_json(self.folder / INDEX, index)

    def blocks(self) -> Iterator[tuple[str, str, int, Vectors]]:
        """Yield (file, shard, row of the shard, embeddings) for all files, BLOCK_ROWS or LATE_ROWS at a time."""
        open_shard, vectors, ends = "", np.zeros((0, 0)), None
        for name, entry in sorted(self.entries.items(), key=lambda item: (item[1].shard, item[1].start, item[0])):
            if entry.shard != open_shard:
                open_shard, vectors = entry.shard, self._vectors(entry.shard)
                path = self.folder / SHARDS / open_shard / TOKENS
                ends = np.cumsum([0, *storage.read_json(path, LIMIT_BYTES, REBUILD)]) if path.is_file() else None
            last = entry.start + entry.count
            if (len(vectors) if ends is None else len(ends) - 1) < last:
                raise CorruptFileError(f"{self.folder / INDEX} lists more passages than its shards contain. {REBUILD}")
            step = BLOCK_ROWS if ends is None else LATE_ROWS
            for start in range(entry.start, last, step):
                rows = range(start, min(start + step, last))
                if ends is None:
                    yield name, entry.shard, start, np.array(vectors[start : rows.stop])
                else:
                    yield name, entry.shard, start, [np.array(vectors[ends[row] : ends[row + 1]]) for row in rows]

    def _vectors(self, shard: str) -> np.ndarray:
        folder = self.folder / SHARDS / shard
        storage.verify_folder(folder, manifest_sha256=self.manifests[shard], fix=REBUILD)
        path = folder / VECTORS
        try:
            vectors: np.ndarray = np.load(path, mmap_mode="r")
        except (OSError, ValueError) as error:
            raise CorruptFileError(f"{path} cannot be read ({error}). {REBUILD}") from None
        if vectors.ndim != 2 or vectors.shape[1] != self.about["size"] or vectors.dtype != np.float32:
            raise CorruptFileError(f"{path} is not what index.json describes. {REBUILD}")
        return vectors

    def passages(self, shard: str, rows: Sequence[int]) -> dict[int, Passage]:
        """Return the passages of selected rows of a shard."""
        wanted, found = set(rows), {}
        path = self.folder / SHARDS / shard / PASSAGES
        try:
            with path.open(encoding="utf-8", newline="\n") as lines:
                for row, line in enumerate(islice(lines, max(wanted, default=-1) + 1)):
                    if row in wanted:
                        found[row] = Passage(**json.loads(line))
        except (OSError, ValueError, TypeError) as error:
            raise CorruptFileError(f"{path} cannot be read ({error}). {REBUILD}") from None
        return found


def _is_entry(value: Any, shards: Container[str]) -> bool:
    """Return whether a JSON value is a valid Entry of one of these shards."""
    if not isinstance(value, dict) or set(value) != {"sha256", "shard", "start", "count"}:
        return False
    has_rows = all(type(value[name]) is int and value[name] >= 0 for name in ("start", "count"))
    return has_rows and all(isinstance(value[name], str) for name in ("sha256", "shard")) and value["shard"] in shards


def discard(folder: Path) -> None:
    """Remove an index, complete or not. Raises RunError if the folder contains other files."""
    if not (folder / INDEX).is_file():
        _check_content(folder)
    (folder / INDEX).unlink(missing_ok=True)
    for path in _shards(folder):
        storage.remove_folder(path) if path.is_dir() else path.unlink()


def _check_content(folder: Path) -> None:
    """Raise RunError unless a folder is empty or contains only an interrupted build."""
    found = [path for path in folder.iterdir() if path.name != ".lock"] if folder.exists() else []
    inside = [path for path in (folder / SHARDS).glob("*") if path not in _shards(folder)] if found else []
    if inside or any(path.name != SHARDS for path in found):
        raise RunError(f"{folder} is not empty and not an index: choose another folder for --index.")


def _shards(folder: Path) -> list[Path]:
    """Including those of format 1, which are files."""
    found = sorted((folder / SHARDS).glob("*"))
    return [path for path in found if (_SHARD if path.is_dir() else _SHARD_OF_FORMAT_1).fullmatch(path.name)]


def about_vectors(encoder: TextEncoder | LateEncoder, passage_tokens: int, text_field: str) -> dict[str, Any]:
    """Return the settings that determine the embeddings; the model as the SHA-256 of its weights and vocabulary."""
    if isinstance(encoder, LateEncoder):
        kind: dict[str, Any] = {"late": json.dumps(asdict(encoder.late))}
    else:
        kind = {"layers": [*map(str, encoder.layers.numbers), encoder.layers.combine], "pooling": encoder.pooling}
    prompt = encoder.declared.prompt_of(encoder.role)
    kind |= {} if prompt == encoder.declared.prompt else {"prompt": prompt}
    digest = hashlib.sha256(encoder.tokenizer.backend.to_str().encode())
    for name, tensor in sorted(encoder.model.state_dict().items()):
        digest.update(name.encode() + str(tuple(tensor.shape)).encode())
        digest.update(np.ascontiguousarray(tensor.detach().float().cpu().numpy()).view(np.uint8).data)
    return {
        "model": digest.hexdigest(),
        **kind,
        "max_length": encoder.max_length,
        "passage_tokens": passage_tokens,
        "text_field": text_field,
        "size": encoder.size,
    }


BLOCK_PASSAGES = 512  # passages per block, sorted by length
SHARD_BYTES = 1 << 20  # approximate text size of a shard
PASSAGE_TOKENS = 128

Named = tuple[str, Passage]


@dataclass(frozen=True)
class Hit:
    """A search result: cosine similarity or MaxSim; sentence: start and end, in the source, of the closest one."""

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

    passage_tokens: maximum tokens of a passage, at most those of the encoder; text_field: text column of tables.
    embedded, unchanged: number of files in the last `search`.
    """

    def __init__(
        self,
        encoder: TextEncoder | LateEncoder,
        *,
        passage_tokens: int = PASSAGE_TOKENS,
        text_field: str = "text",
        skip_bad_rows: bool = False,
        batch_tokens: int | None = None,
    ) -> None:
        if passage_tokens < 1:
            raise ConfigError(f"passage_tokens is {passage_tokens}; it must be at least 1.")
        self.queries, self.encoder = encoder.for_role("query"), encoder.for_role("document")
        encoder = self.encoder
        special = len(encoder.tokenizer(encoder.declared.prompt_of(encoder.role)))
        self.text_field, self.skip_bad_rows = text_field, skip_bad_rows
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

        source: a folder, files or a pattern; index: folder of the embeddings; restart: rebuild it. Raises RowErrors
        before anything is embedded, RunError for the index of another model.
        """
        if not queries or not all(query.strip() for query in queries):
            raise InputError("A query is empty: pass some text.")
        if top_k < 1:
            raise ConfigError(f"top_k is {top_k}; it must be at least 1.")
        names = self._names(source, index)
        best = _Best(partial(self._scores, self._encoded(self.queries, queries)), len(queries), top_k)
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

    def _embed(self, names: Sequence[str]) -> Iterator[tuple[list[Named], Vectors]]:
        """Yield passages in blocks with their embeddings, and report progress."""
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
                        yield block, self._vectors([passage.text for _, passage in block])
                        count += len(block)
                        rate = count / (time.monotonic() - started)
                        progress.update(done + min(read, size), f"{count:,} passages, {rate:,.0f}/s")
                        block = []
                done += size
            if block:
                yield block, self._vectors([passage.text for _, passage in block])
                count += len(block)
        self.passages += count

    def _vectors(self, passages: Sequence[str]) -> Vectors:
        return self._encoded(self.encoder, passages)

    def _encoded(self, encoder: TextEncoder | LateEncoder, texts: Sequence[str]) -> Vectors:
        """Embeddings, of length 1 where there is one for each text."""
        found = encoder.vectors(list(texts), self.batch_tokens)
        return found if isinstance(found, list) else unit_vectors(found)

    def _scores(self, queries: Any, vectors: Any) -> np.ndarray:
        """float32 [queries, passages]. queries, vectors: of `_encoded`."""
        scores: np.ndarray = (
            self.encoder.compare(queries, vectors) if isinstance(self.encoder, LateEncoder) else queries @ vectors.T
        )
        return scores

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
            sentences = self._vectors([passage.text[start:end] for start, end in spans])
            spans = [spans[int(self._scores(self._encoded(self.queries, [query]), sentences)[0].argmax())]]
        start, end = spans[0] if spans else (0, len(passage.text))
        return Hit(score, file, passage, (passage.start + start, passage.start + end))


_Found = tuple[float, str, Any]


class _Best:
    """The best passages of each query so far; ties keep the first. scores: of embeddings, [queries, passages]."""

    def __init__(self, scores: Callable[[Vectors], np.ndarray], num_queries: int, top_k: int) -> None:
        self.scores, self.top_k = scores, top_k
        self.heaps: list[list[tuple[float, int, str, Any]]] = [[] for _ in range(num_queries)]
        self.offered = 0

    def offer(self, names: Sequence[str], places: Sequence[Any], vectors: Vectors) -> None:
        for heap, row in zip(self.heaps, self.scores(vectors), strict=True):
            for place in np.argsort(-row, kind="stable")[: self.top_k].tolist():
                entry = (float(row[place]), -(self.offered + place), names[place], places[place])
                if len(heap) < self.top_k:
                    heapq.heappush(heap, entry)
                elif entry[:2] > heap[0][:2]:
                    heapq.heapreplace(heap, entry)
        self.offered += len(places)

    def ranked(self) -> list[list[_Found]]:
        """Return (score, file, passage) for each query, best first."""
        best = [sorted(heap, key=lambda entry: (-entry[0], -entry[1])) for heap in self.heaps]
        return [[(score, name, place) for score, _, name, place in heap] for heap in best]


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
