"""The folder that keeps the vectors of passages, so that a file is embedded once for each content that it has.

    index.json           the model's fingerprint, the settings, and for each file its SHA-256 and where its passages are
    shards/NAME.npy      float32 [passages, size], unit vectors        NAME.jsonl    the passages, a line each

A shard holds the passages of a few files and never changes; one that no file needs any more is removed. index.json is
written after each shard, so an interrupted run goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..core import storage
from ..core.errors import CorruptFileError, RunError
from ..text.passages import Passage
from .embed import TextEncoder
from .vectors_file import write_npy

INDEX, SHARDS = "index.json", "shards"
FORMAT = 1
_SHARD = re.compile("[0-9a-f]{24}")
BLOCK_ROWS = 8192  # vectors in memory at once


@dataclass(frozen=True, slots=True)
class Entry:
    """Where the passages of a file are: rows `start` to `start + count` of a shard."""

    sha256: str
    shard: str
    start: int
    count: int


class SearchIndex:
    """An index folder. entries: file name -> Entry. Hold `storage.lock(folder)` while it may be written.

    about: what its vectors depend on (`about_vectors`). Raises RunError when the folder was made with something else,
    CorruptFileError when it is damaged.
    """

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self.folder, self.about = folder, about
        self.entries: dict[str, Entry] = {}
        if (folder / INDEX).is_file():
            self.entries = self._read()
        elif folder.exists() and any(path.name != ".lock" for path in folder.iterdir()):
            raise RunError(f"{folder} is not empty and holds no index: choose another folder for --index.")

    def _read(self) -> dict[str, Entry]:
        stored = storage.read_json(self.folder / INDEX, limit_bytes=1 << 30)
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            raise CorruptFileError(f"{self.folder / INDEX} is no index of this version: --restart makes it anew.")
        about = stored.get("about")
        other = [name for name, value in self.about.items() if not isinstance(about, dict) or about.get(name) != value]
        if other:
            what = "another model" if "model" in other else f"another setting of {', '.join(other)}"
            raise RunError(
                f"The index {self.folder} was made with {what}: use the same again, another --index, or --restart to "
                "make it anew."
            )
        files = stored.get("files")
        if not isinstance(files, dict) or not all(map(_is_entry, files.values())):
            raise CorruptFileError(f"{self.folder / INDEX} is damaged: --restart makes it anew.")
        return {name: Entry(**entry) for name, entry in files.items()}

    def by_content(self) -> dict[str, Entry]:
        """SHA-256 -> an entry with that content; a renamed file is found by it."""
        return {entry.sha256: entry for entry in self.entries.values()}

    def add(self, files: Mapping[str, str], blocks: Iterable[tuple[list[tuple[str, Passage]], np.ndarray]]) -> None:
        """Write one shard, block by block. files: name -> SHA-256, in order; blocks: passages with the names of their
        files, in that order, and their vectors, float32 [block, size].
        """
        shard = hashlib.sha256("".join(files.values()).encode()).hexdigest()[:24]
        folder = self.folder / SHARDS
        counts = dict.fromkeys(files, 0)
        with storage.open_new(folder / f"{shard}.jsonl") as lines:

            def vectors() -> Iterator[np.ndarray]:
                for passages, block in blocks:
                    for name, passage in passages:
                        counts[name] += 1
                        line = json.dumps(asdict(passage), ensure_ascii=False) + "\n"
                        storage.fs.write(lines, line.encode("utf-8"))
                    yield block

            write_npy(folder / f"{shard}.npy", vectors(), self.about["size"])
        start = 0
        for name, digest in files.items():
            self.entries[name] = Entry(digest, shard, start, counts[name])
            start += counts[name]
        self.save()

    def keep_only(self, names: Sequence[str]) -> int:
        """Forget files that are gone, and remove shards that nothing needs. Returns how many files were forgotten."""
        gone = set(self.entries) - set(names)
        self.entries = {name: entry for name, entry in self.entries.items() if name not in gone}
        needed = {entry.shard for entry in self.entries.values()}
        unneeded = [path for path in (self.folder / SHARDS).glob("*") if path.stem not in needed]
        if gone or unneeded:
            self.save()
            for path in unneeded:
                path.unlink()
        return len(gone)

    def save(self) -> None:
        """Write index.json."""
        files = {name: asdict(entry) for name, entry in sorted(self.entries.items())}
        storage.write_json(self.folder / INDEX, {"format": FORMAT, "about": self.about, "files": files})

    def blocks(self) -> Iterator[tuple[str, str, int, np.ndarray]]:
        """(file, shard, row of the shard, float32 [block, size]) for all files, at most BLOCK_ROWS vectors at once."""
        open_shard, vectors = "", np.zeros((0, 0))
        for name, entry in sorted(self.entries.items(), key=lambda item: (item[1].shard, item[1].start, item[0])):
            if entry.shard != open_shard:
                open_shard, vectors = entry.shard, self._vectors(entry.shard)
            if len(vectors) < entry.start + entry.count:
                raise CorruptFileError(f"{self.folder / INDEX} names more than its shards hold: take --restart.")
            for start in range(entry.start, entry.start + entry.count, BLOCK_ROWS):
                yield (
                    name,
                    entry.shard,
                    start,
                    np.array(vectors[start : min(start + BLOCK_ROWS, entry.start + entry.count)]),
                )

    def _vectors(self, shard: str) -> np.ndarray:
        path = self.folder / SHARDS / f"{shard}.npy"
        try:
            vectors: np.ndarray = np.load(path, mmap_mode="r")
        except (OSError, ValueError) as error:
            raise CorruptFileError(f"{path} cannot be read ({error}): --restart makes the index anew.") from None
        if vectors.ndim != 2 or vectors.shape[1] != self.about["size"] or vectors.dtype != np.float32:
            raise CorruptFileError(f"{path} is not what index.json says: --restart makes the index anew.")
        return vectors

    def passages(self, shard: str, rows: Sequence[int]) -> dict[int, Passage]:
        """The passages of some rows of a shard."""
        wanted, found = set(rows), {}
        path = self.folder / SHARDS / f"{shard}.jsonl"
        try:
            with path.open(encoding="utf-8", newline="\n") as lines:
                for row, line in enumerate(islice(lines, max(wanted, default=-1) + 1)):
                    if row in wanted:
                        found[row] = Passage(**json.loads(line))
        except (OSError, ValueError, TypeError) as error:
            raise CorruptFileError(f"{path} cannot be read ({error}): --restart makes the index anew.") from None
        return found


def _is_entry(value: Any) -> bool:
    """Whether it is what an Entry is made of; the name of a shard leads nowhere else."""
    if not isinstance(value, dict) or set(value) != {"sha256", "shard", "start", "count"}:
        return False
    has_place = all(isinstance(value[name], int) and value[name] >= 0 for name in ("start", "count"))
    return has_place and isinstance(value["sha256"], str) and bool(_SHARD.fullmatch(str(value["shard"])))


def discard(folder: Path) -> None:
    """Remove the index of a folder. Raises RunError for a folder that holds something else."""
    if (folder / INDEX).is_file():
        storage.remove_folder(folder / SHARDS)
        (folder / INDEX).unlink()
    elif any(path.name != ".lock" for path in folder.iterdir()):
        raise RunError(f"{folder} is not empty and holds no index: choose another folder for --index.")


def about_vectors(encoder: TextEncoder, passage_tokens: int, text_field: str) -> dict[str, Any]:
    """What the vectors of an index depend on; the model by the SHA-256 of its weights and vocabulary."""
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
