"""Row fingerprints, which compare millions of rows in bounded memory: 80 bytes per row.

Each row has three: a hash of the exact texts; a hash of their case-folded letters and digits; and MinHash bands
(Broder 1997), of which two rows share one when their word bigrams overlap strongly.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from array import array
from zlib import crc32

import numpy as np

BANDS, BAND_ROWS = 6, 3  # texts with a bigram overlap of 80% share a band with probability 98.6%
NEAR = 0.8
MIN_WORDS = 6  # shorter texts get no bands
MAX_PAIRS = 100_000  # candidate pairs of near duplicates that are compared
_BLOCK = 2048
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Chinese and Japanese, a word per character
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_MULTIPLY = np.random.Generator(np.random.PCG64(17)).integers(1, 1 << 62, BANDS * BAND_ROWS, dtype=np.uint64) * 2 + 1
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


def words_of(text: str) -> list[str]:
    """Return the words of a text, case-folded and NFKC-normalized, without punctuation."""
    return _WORD.findall(text.casefold() if text.isascii() else unicodedata.normalize("NFKC", text).casefold())


def hash_text(text: str) -> int:
    """Return the 64-bit BLAKE2b hash of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def shingles(text: str) -> set[tuple[str, str]]:
    """Return the word bigrams of a text."""
    words = words_of(text)
    return set(zip(words, words[1:], strict=False))


def overlap(first: str, second: str) -> float:
    """Return the Jaccard similarity of the word bigrams of two texts."""
    one, other = shingles(first), shingles(second)
    return len(one & other) / len(one | other) if one or other else float(first == second)


class RowFingerprints:
    """Fingerprints of the rows of one file, in order.

    After `close`: exact, plain, label: uint64 [rows]; line: int64 [rows]; bands: uint64 [rows, BANDS], 0 if the text
    has fewer than MIN_WORDS words. with_bands: compute the bands, which near-duplicate detection needs.
    """

    def __init__(self, with_bands: bool = True) -> None:
        self.with_bands = with_bands
        self._columns = {name: array("Q") for name in ("exact", "plain", "label", "line")}
        self._bands: list[np.ndarray] = []
        self._waiting: list[np.ndarray] = []

    def add(self, text: str, pair: str | None = None, label: str | None = None, line: int = 0) -> int:
        """Add a row; returns its number of words."""
        first = words_of(text)
        second = [] if pair is None else words_of(pair)
        whole = text if pair is None else f"{text}\x1f{pair}"
        letters = "".join(first) + ("" if pair is None else "\x1f" + "".join(second))
        self._columns["exact"].append(hash_text(whole))
        self._columns["plain"].append(hash_text(letters if letters.strip("\x1f") else whole))
        self._columns["label"].append(0 if label is None else hash_text(label))
        self._columns["line"].append(line)
        if self.with_bands:
            every = first + second
            codes = [crc32(word.encode("utf-8", "surrogatepass")) for word in every] if len(every) >= MIN_WORDS else []
            self._waiting.append(np.array(codes, dtype=np.uint64))
            if len(self._waiting) == _BLOCK:
                self._flush()
        return len(first) + len(second)

    def close(self) -> RowFingerprints:
        """Convert the columns to arrays after the last row."""
        if self._waiting:
            self._flush()
        for name, values in self._columns.items():
            kind = np.int64 if name == "line" else np.uint64
            setattr(self, name, np.frombuffer(values, dtype=np.uint64).astype(kind, copy=False))
        self.bands = np.concatenate(self._bands) if self._bands else np.zeros((len(self), BANDS), dtype=np.uint64)
        return self

    exact: np.ndarray
    plain: np.ndarray
    label: np.ndarray
    line: np.ndarray
    bands: np.ndarray

    def __len__(self) -> int:
        return len(self._columns["line"])

    def _flush(self) -> None:
        self._bands.append(_bands(self._waiting))
        self._waiting = []


def _bands(rows: list[np.ndarray]) -> np.ndarray:
    """Compute the MinHash bands of rows of word hashes: uint64 [rows, BANDS]."""
    result = np.zeros((len(rows), BANDS), dtype=np.uint64)
    hashable = [number for number, codes in enumerate(rows) if len(codes) >= MIN_WORDS]
    if not hashable:
        return result
    parts = [rows[number][:-1] * _MIX + rows[number][1:] for number in hashable]
    flat = np.concatenate(parts)  # [shingles]
    flat = (flat ^ (flat >> _SHIFT)) * _MIX
    starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])[:-1]])
    for band in range(BANDS):
        name = np.zeros(len(hashable), dtype=np.uint64)
        for row in range(BAND_ROWS):
            hashed = flat * _MULTIPLY[band * BAND_ROWS + row]
            least = np.minimum.reduceat(hashed ^ (hashed >> _SHIFT), starts)  # [hashable]
            name = (name ^ least) * _MIX
        result[hashable, band] = name | np.uint64(1)
    return result


def equal_rows(names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the group of equal hashes of each row, and the first row of that group: int64 [rows]."""
    _, first, group = np.unique(names, return_index=True, return_inverse=True)
    return group, first[group]


def near_pairs(plain: np.ndarray, bands: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return pairs of rows (first, later) that share a band and differ in more than spelling: int64 [pairs, 2].

    plain [rows], bands [rows, BANDS]: as in RowFingerprints, of one file or of two concatenated. The second result is
    True if there are more than MAX_PAIRS pairs.
    """
    _, first = equal_rows(plain)
    kept = np.flatnonzero(first == np.arange(len(plain)))
    found: list[np.ndarray] = []
    for band in range(BANDS):
        names = bands[kept, band]
        order = np.argsort(names, kind="stable")
        names, rows = names[order], kept[order]
        same = np.flatnonzero((names[1:] == names[:-1]) & (names[1:] != 0))
        starts = np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]]))
        begin = rows[starts[np.searchsorted(starts, same, side="right") - 1]]
        found += [np.stack([rows[same], rows[same + 1]], axis=1), np.stack([begin, rows[same + 1]], axis=1)]
    pairs = np.unique(np.concatenate(found), axis=0) if found else np.zeros((0, 2), dtype=np.int64)
    return pairs[:MAX_PAIRS], len(pairs) > MAX_PAIRS
