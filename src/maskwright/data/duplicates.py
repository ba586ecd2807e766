"""Detection of exact duplicate texts in bounded memory.

Texts are identified by their BLAKE2b-128 digests. Recent digests are in a set; each full set becomes a sorted file, and
batches of digests are looked up in all files. The files can be rebuilt from the digests in the shards, so they need not
survive a crash.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from ..core import storage

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
