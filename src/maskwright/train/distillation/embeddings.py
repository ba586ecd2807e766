"""The teacher's embeddings of a corpus: computed once by the inference engine and cached on disk.

    folder/teacher.json       the teacher they belong to; a cache of another teacher is rejected
    folder/HASH/vectors.bin   float16 [texts, size] for the file of texts with this SHA-256; manifest.json

A part is complete or absent: an interrupted pass resumes after its last part, and runs on the same texts can share one
cache. A damaged part is computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...core import storage
from ...core.errors import CorruptFileError, RunError
from ...core.progress import track, warn
from ...data.shards import map_array
from ...inference.embed import TextEncoder
from .texts import Texts, read_texts

TEACHER, VECTORS = "teacher.json", "vectors.bin"
HALF = np.dtype("<f2")
KEY_LENGTH = 24  # hexadecimal digits of the SHA-256


class CachedEmbeddings:
    """Embeddings of the documents of several files, in order, memory-mapped."""

    def __init__(self, parts: list[np.ndarray]) -> None:
        self.parts = parts
        self._starts = np.cumsum([0, *map(len, parts)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def rows(self, documents: Sequence[int]) -> np.ndarray:
        """The embeddings of these documents: float32 [documents, size]."""
        numbers = np.searchsorted(self._starts, documents, side="right") - 1
        found = [self.parts[part][row - self._starts[part]] for part, row in zip(numbers, documents, strict=True)]
        return np.stack(found).astype(np.float32)


def teacher_embeddings(texts: Texts, folder: Path, encoder: TextEncoder, teacher: dict[str, str]) -> CachedEmbeddings:
    """The embeddings of all texts; computes those that `folder` does not contain.

    teacher: its name and the digest of its weights. Raises RunError for a cache of another teacher, or one that another
    process is using.
    """
    with storage.lock(folder):
        storage.remove_leftovers(folder)
        _check_teacher(folder / TEACHER, teacher)
        parts: list[np.ndarray] = []
        with track("Teacher embeddings", texts.count, "texts") as progress:
            for path in texts.files:
                parts.append(_part(path, folder / _key(path), encoder))
                progress.update(sum(map(len, parts)))
    return CachedEmbeddings(parts)


def open_embeddings(texts: Texts, folder: Path, size: int) -> CachedEmbeddings:
    """The embeddings that another process of this training has computed. size: their dimension."""
    return CachedEmbeddings([_mapped(folder / _key(path), size) for path in texts.files])


def _check_teacher(path: Path, teacher: dict[str, str]) -> None:
    if not path.is_file():
        storage.write_json(path, teacher)
    elif (made := storage.read_json(path)).get("sha256") != teacher["sha256"]:
        raise RunError(
            f"{path.parent} contains the embeddings of another teacher ({made.get('name')}), or of one whose weights "
            "have changed since: pass that teacher, or another folder with --embeddings."
        )


def _part(path: Path, folder: Path, encoder: TextEncoder) -> np.ndarray:
    """The embeddings of one file of texts: float16 [texts, size]."""
    if folder.is_dir():
        try:
            storage.verify_folder(folder, fix="These embeddings are computed again.")
            return _mapped(folder, encoder.size)
        except CorruptFileError as error:
            warn(str(error))
        storage.remove_folder(folder)
    vectors = encoder.vectors(list(read_texts(path)))
    with storage.new_folder(folder) as new:
        storage.write_bytes(new / VECTORS, vectors.astype(HALF).tobytes())
    return _mapped(folder, encoder.size)


def _key(path: Path) -> str:
    return storage.sha256(path)[:KEY_LENGTH]


def _mapped(folder: Path, size: int) -> np.ndarray:
    count = (folder / VECTORS).stat().st_size // HALF.itemsize
    return map_array(folder / VECTORS, HALF, count).reshape(-1, size)
