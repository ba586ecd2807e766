"""Words segmented into symbols, with counts of symbols and adjacent pairs that are updated with each merge.

Shared by byte-pair encoding (Sennrich et al. 2016) and WordPiece by score. A merge updates only the words that contain
the pair, so training costs about (distinct words) x (merges per word), not (words) x (merges).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

Pair = tuple[int, int]
Position = tuple[int, int]  # index of the word, characters before the pair


class Changes(NamedTuple):
    """Effect of a merge on other pairs: `risen` ones became more frequent or occur earlier in some word, `fallen` ones
    less frequent or later in some word; a pair may be in both.
    """

    risen: set[Pair]
    fallen: set[Pair]


class Segmentation:
    """Distinct words as lists of symbol numbers.

    names: string of each symbol; words: symbols of each word; counts: occurrences of each word; symbol_counts:
    occurrences of each symbol; pair_counts: occurrences of each adjacent pair; pair_words: words that contain it.
    """

    def __init__(self, words: Iterable[tuple[list[str], int]]) -> None:
        self.names: list[str] = []
        self.numbers: dict[str, int] = {}
        self.words: list[list[int]] = []
        self.counts: list[int] = []
        self.symbol_counts: list[int] = []
        self.pair_counts: dict[Pair, int] = {}
        self.pair_words: dict[Pair, set[int]] = {}
        for symbols, count in words:
            index = len(self.words)
            row = [self.number(symbol) for symbol in symbols]
            self.words.append(row)
            self.counts.append(count)
            for symbol in row:
                self.symbol_counts[symbol] += count
            for pair in pairwise(row):
                self.pair_counts[pair] = self.pair_counts.get(pair, 0) + count
                self.pair_words.setdefault(pair, set()).add(index)

    def number(self, name: str) -> int:
        """Returns the number of a symbol, adding it if new."""
        if name not in self.numbers:
            self.numbers[name] = len(self.names)
            self.names.append(name)
            self.symbol_counts.append(0)
        return self.numbers[name]

    def first_position(self, pair: Pair) -> Position:
        """Returns the first occurrence of the pair, in word order."""
        index = min(self.pair_words[pair])
        return index, next(self._places(index, pair))

    def last_position(self, pair: Pair) -> Position:
        """Returns the last occurrence of the pair, in word order."""
        index = max(self.pair_words[pair])
        return index, max(self._places(index, pair))

    def merge(self, pair: Pair, merged: int, ranks: Mapping[Pair, tuple[int, int]] | None = None) -> Changes:
        """Replace the pair by symbol `merged` in every word.

        ranks: learned merges (pair to rank and result), to keep words as `apply_merges` would segment them: a merge
        whose result existed before can trigger older merges.
        """
        changes = Changes(set(), set())
        for index in self.pair_words.pop(pair, ()):
            row = self.words[index]
            new = join(row, pair, merged) if ranks is None else apply_merges(row, ranks)
            self._replace(index, pair, new, changes, is_cascade=ranks is not None)
        self.pair_counts.pop(pair, None)
        return changes

    def _replace(self, index: int, pair: Pair, new: list[int], all_changes: Changes, *, is_cascade: bool) -> None:
        """Replace a word by `new` and update all counts except that of `pair` itself."""
        count, old = self.counts[index], self.words[index]
        self.words[index] = new
        old, new = _where_they_differ(old, new)
        for symbol in old:
            self.symbol_counts[symbol] -= count
        for symbol in new:
            self.symbol_counts[symbol] += count
        changes: dict[Pair, int] = {}
        for gone in pairwise(old):
            changes[gone] = changes.get(gone, 0) - count
        for come in pairwise(new):
            changes[come] = changes.get(come, 0) + count
        changes.pop(pair, None)
        still_here = set(pairwise(self.words[index]))
        for other, change in changes.items():
            if other in still_here:
                self.pair_words.setdefault(other, set()).add(index)
            else:
                self.pair_words[other].discard(index)
            if change:
                self.pair_counts[other] = self.pair_counts.get(other, 0) + change
            if change > 0 or (is_cascade and other in still_here):
                all_changes.risen.add(other)
                continue
            all_changes.fallen.add(other)
            if not self.pair_counts[other]:
                del self.pair_counts[other], self.pair_words[other]

    def _places(self, index: int, pair: Pair) -> Iterator[int]:
        """Yields the characters before each occurrence of the pair in a word, which other merges do not change."""
        offset = 0
        row = self.words[index]
        for here in pairwise(row):
            if here == pair:
                yield offset
            offset += len(self.names[here[0]])


def join(row: list[int], pair: Pair, merged: int) -> list[int]:
    """Returns the row with every occurrence of the pair replaced, from left to right."""
    left, right = pair
    result = []
    position, last = 0, len(row) - 1
    while position <= last:
        symbol = row[position]
        position += 1
        if symbol == left and position <= last and row[position] == right:
            symbol = merged
            position += 1
        result.append(symbol)
    return result


def _where_they_differ(old: list[int], new: list[int]) -> tuple[list[int], list[int]]:
    """Returns both rows without their common ends, except for one symbol that forms pairs with the rest."""
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    start, end = max(0, start - 1), max(0, end - 1)
    return old[start : len(old) - end], new[start : len(new) - end]


def apply_merges(row: list[int], ranks: Mapping[Pair, tuple[int, int]]) -> list[int]:
    """Apply learned merges (pair to rank and result): always the earliest learned, leftmost first."""
    row = list(row)
    while len(row) > 1:
        found = [(ranks[pair][0], place) for place, pair in enumerate(pairwise(row)) if pair in ranks]
        if not found:
            break
        _, place = min(found)
        row[place : place + 2] = [ranks[row[place], row[place + 1]][1]]
    return row
