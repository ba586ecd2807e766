"""Index folder of a semantic search, which embeds each file content once.

    index.json           model fingerprint, settings, SHA-256 of each shard's manifest, SHA-256 and passage rows of each
                         file; with a checksum
    shards/NAME/         vectors.npy    float32 [passages, size], unit vectors
                         passages.jsonl the passages, one per line
                         manifest.json

A shard contains the passages of a few files and never changes; unused shards are removed. index.json is written after
each shard, so an interrupted build resumes. Every shard is verified against its manifest before it is searched.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..core import storage
from ..core.errors import CorruptFileError, RunError
from ..text.readers.passages import Passage
from .embed import TextEncoder
from .vectors_file import write_npy

INDEX, SHARDS = "index.json", "shards"
VECTORS, PASSAGES = "vectors.npy", "passages.jsonl"
FORMAT = 2
LIMIT_BYTES = 1 << 30
_SHARD = re.compile("[0-9a-f]{24}")
_SHARD_OF_FORMAT_1 = re.compile(r"[0-9a-f]{24}\.(npy|jsonl)")
BLOCK_ROWS = 8192  # embeddings in memory at once
REBUILD = "Use --restart to build the index again."


@dataclass(frozen=True, slots=True)
class Entry:
    """Location of the passages of a file: rows `start` to `start + count` of a shard."""

    sha256: str
    shard: str
    start: int
    count: int


class SearchIndex:
    """An index folder. The caller must hold `storage.lock(folder)` while writing.

    about: model and settings of the embeddings (`about_vectors`); entries: file name -> Entry; manifests: shard name ->
    SHA-256 of its manifest. Raises RunError if the index has another model or settings, or the folder is not an index;
    CorruptFileError if the index is damaged.
    """

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self.folder, self.about = folder, about
        self.entries: dict[str, Entry] = {}
        self.manifests: dict[str, str] = {}
        if (folder / INDEX).is_file():
            self._read()
        else:
            _check_content(folder)

    def _read(self) -> None:
        path = self.folder / INDEX
        stored = storage.read_json(path, LIMIT_BYTES, REBUILD)
        known = stored.get("format") if isinstance(stored, dict) else None
        if known != FORMAT:
            raise CorruptFileError(f"{path} is damaged, or an index of another version. {REBUILD}")
        stored = storage.read_checked_json(path, REBUILD, LIMIT_BYTES)
        about, files, manifests = (stored.get(name) for name in ("about", "files", "shards"))
        other = [name for name, value in self.about.items() if not isinstance(about, dict) or about.get(name) != value]
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
        self.manifests = dict(manifests)

    def by_content(self) -> dict[str, Entry]:
        """Map SHA-256 to an entry with that content, which also finds renamed files."""
        return {entry.sha256: entry for entry in self.entries.values()}

    def add(self, files: Mapping[str, str], blocks: Iterable[tuple[list[tuple[str, Passage]], np.ndarray]]) -> None:
        """Write one shard block by block.

        files: name -> SHA-256, in order; blocks: (file name, passage) in that order, and embeddings, float32 [block,
        size].
        """
        shard = hashlib.sha256("".join(files.values()).encode()).hexdigest()[:24]
        folder = self.folder / SHARDS / shard
        counts = dict.fromkeys(files, 0)
        storage.remove_folder(folder)  # left by an interrupted build
        with storage.new_folder(folder) as new, storage.open_new(new / PASSAGES) as lines:

            def vectors() -> Iterator[np.ndarray]:
                for passages, block in blocks:
                    for name, passage in passages:
                        counts[name] += 1
                        line = json.dumps(asdict(passage), ensure_ascii=False) + "\n"
                        storage.fs.write(lines, line.encode("utf-8"))
                    yield block

            write_npy(new / VECTORS, vectors(), self.about["size"])
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
                _remove(path)
        return len(gone)

    def save(self) -> None:
        """Write index.json."""
        files = {name: asdict(entry) for name, entry in sorted(self.entries.items())}
        index = {"format": FORMAT, "about": self.about, "shards": self.manifests, "files": files}
        storage.write_checked_json(self.folder / INDEX, index)

    def blocks(self) -> Iterator[tuple[str, str, int, np.ndarray]]:
        """Yield (file, shard, row of the shard, float32 [block, size]) for all files, BLOCK_ROWS at a time."""
        open_shard, vectors = "", np.zeros((0, 0))
        for name, entry in sorted(self.entries.items(), key=lambda item: (item[1].shard, item[1].start, item[0])):
            if entry.shard != open_shard:
                open_shard, vectors = entry.shard, self._vectors(entry.shard)
            if len(vectors) < entry.start + entry.count:
                raise CorruptFileError(f"{self.folder / INDEX} lists more passages than its shards contain. {REBUILD}")
            for start in range(entry.start, entry.start + entry.count, BLOCK_ROWS):
                yield (
                    name,
                    entry.shard,
                    start,
                    np.array(vectors[start : min(start + BLOCK_ROWS, entry.start + entry.count)]),
                )

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
    return (
        has_rows and isinstance(value["sha256"], str) and isinstance(value["shard"], str) and value["shard"] in shards
    )


def discard(folder: Path) -> None:
    """Remove an index, complete or not. Raises RunError if the folder contains other files."""
    if not (folder / INDEX).is_file():
        _check_content(folder)
    (folder / INDEX).unlink(missing_ok=True)
    for path in _shards(folder):
        _remove(path)


def _check_content(folder: Path) -> None:
    """Raise RunError unless a folder is empty or contains only an interrupted build."""
    found = [path for path in folder.iterdir() if path.name != ".lock"] if folder.exists() else []
    inside = [path for path in (folder / SHARDS).glob("*") if path not in _shards(folder)] if found else []
    if inside or any(path.name != SHARDS for path in found):
        raise RunError(f"{folder} is not empty and not an index: choose another folder for --index.")


def _shards(folder: Path) -> list[Path]:
    """Return the shards of an index folder, including those of format 1."""
    found = sorted((folder / SHARDS).glob("*"))
    return [path for path in found if (_SHARD if path.is_dir() else _SHARD_OF_FORMAT_1).fullmatch(path.name)]


def _remove(path: Path) -> None:
    storage.remove_folder(path) if path.is_dir() else path.unlink()


def about_vectors(encoder: TextEncoder, passage_tokens: int, text_field: str) -> dict[str, Any]:
    """Return the settings that determine the embeddings; the model as the SHA-256 of its weights and vocabulary."""
    digest = hashlib.sha256(encoder.tokenizer.backend.to_str().encode())
    for name, tensor in sorted(encoder.model.state_dict().items()):
        digest.update(name.encode() + str(tuple(tensor.shape)).encode())
        digest.update(np.ascontiguousarray(tensor.detach().float().cpu().numpy()).view(np.uint8).data)
    return {
        "model": digest.hexdigest(),
        "layers": [*map(str, encoder.layers.numbers), encoder.layers.combine],
        "pooling": encoder.pooling,
        "max_length": encoder.max_length,
        "passage_tokens": passage_tokens,
        "text_field": text_field,
        "size": encoder.size,
    }
