"""Word counts of a text that is read once, used by every trainer except the byte-level one.

The text is not kept in memory, only distinct words. Beyond `MAX_DISTINCT` the rarest are dropped (lossy counting), and
trainers learn from the `MAX_LEARNED` most common, so memory is bounded: about 100 bytes per distinct word, and 800 per
word learned from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....core.errors import InputError
from ...readers.inputs import reject_non_texts
from . import pipelines
from .pipelines import SPECIAL_TOKENS, Trained

# -- Corpus files as training texts: the sentences of all documents in order -----------------------------------------


def read_texts(
    source: str | Path | Iterable[str | Path],
    skip_bad_rows: bool = False,
    skipped: dict[str, int] | None = None,
) -> Iterator[str]:
    """Yields the sentences of corpus files, folders or patterns; `skipped`, if given, receives the skipped rows."""
    from ...readers.corpus import CorpusFacts, read_documents

    paths = source if isinstance(source, (str, Path)) else list(source)
    facts = CorpusFacts()
    for document in read_documents(paths, skip_bad_rows=skip_bad_rows, facts=facts):
        yield from document.sentences
    if skipped is not None and facts.skipped_rows:
        skipped["skipped_rows"] = facts.skipped_rows


# -- Words segmented into symbols, with counts of symbols and adjacent pairs that are updated with each merge --------
#
# Shared by byte-pair encoding (Sennrich et al. 2016) and WordPiece by score. A merge updates only the words that
# contain the pair, so training costs about (distinct words) x (merges per word), not (words) x (merges).


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


MAX_DISTINCT = 2_000_000
MAX_LEARNED = 400_000
MAX_WORD_CHARACTERS = 100  # longer ones are [UNK] in BERT's WordPiece
# Python splits at these characters, but the library's normalizer removes them.
_REMOVED = re.compile("[\x0b\x0c\x1c-\x1f\x85]")


@dataclass
class WordCounts:
    """Count of each word, in order of first occurrence.

    num_dropped: how often the table exceeded its limit and the rarest words were dropped.
    """

    counts: dict[str, int] = field(default_factory=dict)
    num_texts: int = 0
    num_characters: int = 0
    num_dropped: int = 0

    @property
    def num_words(self) -> int:
        """Total number of words, including repetitions."""
        return sum(self.counts.values())

    def facts(self) -> dict[str, int]:
        """Returns training metadata for the tokenizer's configuration."""
        return {
            "texts": self.num_texts,
            "characters": self.num_characters,
            "words": self.num_words,
            "distinct_words": len(self.counts),
        }


def count_words(texts: Iterable[str], normalizer: Any, pre_tokenizer: Any | None) -> WordCounts:
    """Count the words of `texts` as split by the library.

    normalizer: of the library; pre_tokenizer: one that isolates single characters (punctuation), or None to split only
    at whitespace. Raises InputError if there are no words.
    """
    raw = _count_raw(texts)
    words: dict[str, int] = {}
    split = _splitter(pre_tokenizer)
    for word in list(raw.counts):
        count = raw.counts.pop(word)  # avoids keeping a word twice
        for part in split(normalizer.normalize_str(word)):
            words[part] = words.get(part, 0) + count
    if not words:
        raise InputError("There is no text to train on: the corpus has no words.")
    raw.counts = words
    return raw


def _count_raw(texts: Iterable[str]) -> WordCounts:
    """Counts whitespace-delimited words without normalization."""
    counts: Counter[str] = Counter()
    result = WordCounts()
    for text in texts:
        try:
            text.encode("utf-8")
        except (AttributeError, UnicodeEncodeError):
            reject_non_texts([text])
        counts.update(_REMOVED.sub("", text).split())
        result.num_texts += 1
        result.num_characters += len(text)
        if len(counts) > MAX_DISTINCT:
            counts = Counter(most_common(counts, MAX_DISTINCT // 2))
            result.num_dropped += 1
    result.counts = counts
    return result


def most_common(counts: Mapping[str, int], limit: int = MAX_LEARNED) -> dict[str, int]:
    """Returns the `limit` most common words in their original order; ties go to the first occurrence."""
    if len(counts) <= limit:
        return dict(counts)
    least = int(np.partition(np.fromiter(counts.values(), np.int64, len(counts)), -limit)[-limit])
    ties = limit - sum(count > least for count in counts.values())
    kept = {}
    for word, count in counts.items():
        ties -= count == least
        if count > least or (count == least and ties >= 0):
            kept[word] = count
    return kept


def _splitter(pre_tokenizer: Any | None) -> Callable[[str], Iterator[str] | list[str]]:
    """Returns a function that splits a normalized word; isolated characters are determined once per character."""
    if pre_tokenizer is None:
        return str.split
    isolated: dict[str, bool] = {}

    def split(word: str) -> Iterator[str]:
        """Yields the parts of a normalized word: runs of characters, and each isolated character."""
        for part in word.split():
            if part.isalnum() and part.isascii():
                yield part
                continue
            start = 0
            for index, character in enumerate(part):
                if character not in isolated:
                    isolated[character] = is_isolated(character, pre_tokenizer)
                if isolated[character]:
                    yield from (piece for piece in (part[start:index], character) if piece)
                    start = index + 1
            if part[start:]:
                yield part[start:]

    return split


def is_isolated(character: str, pre_tokenizer: Any) -> bool:
    """Whether `character` is always a separate word."""
    return len(pre_tokenizer.pre_tokenize_str(f"a{character}a")) > 1


@dataclass
class Alphabet:
    """The characters of a vocabulary, and the words that consist of them."""

    characters: list[str]
    words: dict[str, int]
    num_left_out: int


def choose_alphabet(counts: dict[str, int], limit: int) -> Alphabet:
    """Returns the `limit` most frequent characters in code point order, and the words made only of them.

    Words with another character, or longer than `MAX_WORD_CHARACTERS`, are dropped and counted (by occurrences).
    """
    frequency: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            frequency[character] += count
    by_frequency = sorted(frequency, key=lambda character: (-frequency[character], character))
    kept = set(by_frequency[:limit])
    is_whole = len(kept) == len(frequency)
    words = {
        word: count
        for word, count in counts.items()
        if len(word) <= MAX_WORD_CHARACTERS and (is_whole or kept.issuperset(word))
    }
    return Alphabet(sorted(kept), words, sum(counts.values()) - sum(words.values()))


# -- Word-level and character-level vocabularies ---------------------------------------------------------------------


def train_word(texts: Iterable[str], vocab_size: int, *, lowercase: bool = True, min_frequency: int = 1) -> Trained:
    """Keep the most frequent words (ties: first occurrence); any other word is [UNK]."""
    pipelines.require_vocab_size(vocab_size, len(SPECIAL_TOKENS) + 1, "special tokens and one word")
    words = count_words(texts, pipelines.normalizer(lowercase), pipelines.punctuation_splitter())
    frequent = [word for word, count in words.counts.items() if count >= min_frequency]
    frequent.sort(key=words.counts.__getitem__, reverse=True)
    kept = frequent[: vocab_size - len(SPECIAL_TOKENS)]
    left_out = words.num_words - sum(words.counts[word] for word in kept)
    facts: dict[str, Any] = {"vocab_size_wanted": vocab_size, **words.facts(), "words_left_out": left_out}
    return pipelines.word([*SPECIAL_TOKENS, *kept], lowercase, facts)


def train_char(texts: Iterable[str], vocab_size: int, *, lowercase: bool = True) -> Trained:
    """Keep the most frequent characters, and the space; any other character is [UNK]."""
    pipelines.require_vocab_size(vocab_size, len(SPECIAL_TOKENS) + 2, "special tokens, the space and one character")
    words = count_words(texts, pipelines.normalizer(lowercase, isolate_cjk=False), None)
    alphabet = choose_alphabet(words.counts, vocab_size - len(SPECIAL_TOKENS) - 1)
    facts: dict[str, Any] = {"vocab_size_wanted": vocab_size, **words.facts()}
    return pipelines.char([*SPECIAL_TOKENS, " ", *alphabet.characters], lowercase, facts)
