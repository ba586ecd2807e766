"""Which texts were seen before, for any number of texts in bounded memory.

Texts are known by their BLAKE2b-128 digests. The newest stay in a set; each full set becomes a sorted file,
and a batch of digests is looked up in one file after the other. The files can be made again from the
digests that the shards keep, so nothing here has to survive a crash.
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
    """The digest of a document (its sentences, a line each) and its size in UTF-8 bytes."""
    data = "\n".join(sentences).encode("utf-8")
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest(), len(data)


class SeenDigests:
    """A growing set of digests, of which at most `run_size` are in memory; folder: where the sorted files go."""

    def __init__(self, folder: Path, run_size: int = RUN_SIZE) -> None:
        self.folder, self.run_size = folder, run_size
        self.recent: set[bytes] = set()
        self.runs: list[Path] = []

    def add(self, digests: list[bytes]) -> list[bool]:
        """Add digests; for each, whether it was new (neither seen before nor earlier in the list)."""
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
        """Add digests that are known to be new, end to end."""
        for start in range(0, len(digests), DIGEST_BYTES):
            self.recent.add(digests[start : start + DIGEST_BYTES])
        if len(self.recent) >= self.run_size:
            self._flush()

    def _in_runs(self, digests: list[bytes]) -> list[bool]:
        known = np.zeros(len(digests), dtype=bool)
        wanted = _halves(b"".join(digests))
        order = np.argsort(wanted[0])  # neighbours in a file are looked up together
        for path in self.runs:  # one map at a time, so that resident memory stays that of one file
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
    """Digests end to end as uint64 [2, digests]: the first eight bytes of each, then the last eight."""
    return np.frombuffer(data, dtype=_HALF).reshape(-1, 2).T


def _contains(ordered: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Which digests of `wanted` stand in `ordered`, which is sorted by first half, then by second: bool [wanted]."""
    first, second = ordered
    place = np.searchsorted(first, wanted[0])
    hit = np.zeros(wanted.shape[1], dtype=bool)
    same_half = first[np.minimum(place, len(first) - 1)] == wanted[0]
    for index in np.flatnonzero(same_half):  # nearly all of these are real duplicates
        end = np.searchsorted(first, wanted[0, index], side="right")
        hit[index] = wanted[1, index] in second[place[index] : end]
    return hit
