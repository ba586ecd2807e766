"""Row fingerprints, which compare millions of rows in bounded memory: 80 bytes per row.

Each row has three: a hash of the exact texts; a hash of their case-folded letters and digits; and MinHash bands
(Broder 1997), of which two rows share one when their word bigrams overlap strongly.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Collection, Sequence
from zlib import crc32

import numpy as np

from ..core.errors import InputError
from ..core.randomness import generator

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


# -- Rows held out for validation: a fraction of them, in proportion of their labels, and no text on both sides --------
#
# Rows are divided as whole groups: rows of one text (apart from case, spacing and punctuation), of nearly one text, or
# of one value of a group column. The labels are visited from the rarest to the most common, as in iterative
# stratification (Sechidis et al. 2011), and what rounding leaves of one label is owed to the next, so that many small
# classes together also lose no more than the share.


Texts = tuple[str, str | None]


def hold_out(
    labels: Sequence[Collection[str]],
    texts: Sequence[Texts],
    share: float,
    seed: int,
    groups: Sequence[str] | None = None,
) -> set[int]:
    """Returns the indices of the held-out rows, the same for the same seed, in time linear in the rows.

    labels: the labels of each row, () for none; texts: text and second text of each row, which are compared; share: of
    the rows, at least one; groups: a value per row whose rows stay together. Every label keeps a row for training.
    Raises InputError if no row can be held out.
    """
    group = group_rows(texts, round(len(texts) * share), groups)
    counts = Counter(label for row in labels for label in set(row) or ("",))
    units: dict[int, list[int]] = {}
    for row, number in enumerate(group.tolist()):
        units.setdefault(number, []).append(row)
    order = generator(seed, "held-out rows").permutation(len(units)).tolist()
    whole = list(units.values())
    shuffled = [whole[place] for place in order]
    unit_counts = [Counter(label for row in rows for label in set(labels[row]) or ("",)) for rows in shuffled]
    by_label: dict[str, list[int]] = {}
    for number, own in enumerate(unit_counts):
        for label in own:
            by_label.setdefault(label, []).append(number)
    most = {label: min(count - 1, math.ceil(2 * share * count)) for label, count in counts.items()}
    wanted = {label: min(math.ceil(share * count), most[label]) for label, count in counts.items()}
    held: Counter[str] = Counter()
    chosen: set[int] = set()

    def take(number: int) -> None:
        chosen.add(number)
        held.update(unit_counts[number])

    rank = dict(zip(by_label, generator(seed, "held-out labels").permutation(len(by_label)).tolist(), strict=True))
    owed, visited = 0.0, set[str]()
    for label in sorted(by_label, key=lambda one: (counts[one], rank[one])):
        owed += share * counts[label] - held[label]
        visited.add(label)
        for limit in (wanted, most):  # first those whose other labels are still wanted
            for number in by_label[label]:
                if owed < 0.5 or held[label] >= limit[label]:
                    break
                own = unit_counts[number]
                if number in chosen or own[label] > owed + 0.5:
                    continue
                if all(held[other] + count <= limit[other] for other, count in own.items()):
                    take(number)
                    owed -= sum(count for other, count in own.items() if other in visited)
    if not chosen:  # few rows, or all groups are larger than the share
        small = [number for number, rows in enumerate(shuffled) if 4 * len(rows) <= len(labels)]
        small = [n for n in small if all(held[one] + k <= counts[one] - 1 for one, k in unit_counts[n].items())]
        if not small:
            raise InputError("no row can be held out: each label has one text, or one group of rows, only.")
        take(min(small, key=lambda number: len(shuffled[number])))
    return {row for number in chosen for row in shuffled[number]}


def group_rows(texts: Sequence[Texts], largest: int, groups: Sequence[str] | None = None) -> np.ndarray:
    """Returns the group of each row, int64 [rows]: rows of equal or nearly equal texts, or of one value of `groups`.

    Nearly equal texts share a group up to `largest` rows, so that texts from one template can still be divided.
    """
    texts = [
        (text, pair) if pair is None or text.casefold() <= pair.casefold() else (pair, text) for text, pair in texts
    ]  # pairs of either order
    prints = RowFingerprints()
    for text, pair in texts:
        prints.add(text, pair)
    prints.close()
    leader = equal_rows(prints.plain)[1].tolist()
    size = Counter(leader)

    def find(row: int) -> int:
        while leader[row] != row:
            leader[row] = leader[leader[row]]
            row = leader[row]
        return row

    def unite(one: int, other: int, most: float) -> None:
        one, other = sorted((find(one), find(other)))
        if one != other and size[one] + size[other] <= most:
            leader[other] = one
            size[one] += size[other]

    first_of: dict[str, int] = {}
    for row, value in enumerate(groups or ()):
        unite(first_of.setdefault(value, row), row, math.inf)
    for one, other in near_pairs(prints.plain, prints.bands)[0].tolist():
        if find(one) != find(other) and _is_near(texts[one], texts[other]):
            unite(one, other, largest)
    return np.array([find(row) for row in range(len(leader))], dtype=np.int64)


def _is_near(one: Texts, other: Texts) -> bool:
    """Whether most of the words, or of their bigrams, of two rows are the same."""
    if (one[1] is None) != (other[1] is None):
        return False
    return all(
        left == right or _overlap(left or "", right or "") >= NEAR for left, right in zip(one, other, strict=True)
    )


def _overlap(one: str, other: str) -> float:
    words, others = set(words_of(one)), set(words_of(other))
    return max(len(words & others) / max(len(words | others), 1), overlap(one, other))
