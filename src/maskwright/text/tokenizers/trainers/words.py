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
from typing import Any

import numpy as np

from ....core.errors import InputError
from ...readers.inputs import reject_non_texts

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
