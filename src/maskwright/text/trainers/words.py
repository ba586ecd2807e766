"""Counting the words of a text that is read once: what every trainer but the byte-level one learns from.

The text itself is never held. Distinct words are; beyond `MAX_DISTINCT` those seen once so far are dropped
(lossy counting: a word loses at most one count each time), so memory stays bounded whatever the size of the
text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ...core.errors import InputError
from ..inputs import refuse_non_texts

MAX_DISTINCT = 4_000_000
MAX_WORD_CHARACTERS = 100  # longer ones are [UNK] to BERT's WordPiece, and no words in any language
_CHECK_EVERY = 1024
# Python splits at these, the library's normaliser removes them.
_REMOVED = re.compile("[\x0b\x0c\x1c-\x1f\x85]")


@dataclass
class WordCounts:
    """How often each word occurs, words in the order in which they were first seen.

    num_dropped: times that the table was too large and lost the words seen once.
    """

    counts: dict[str, int] = field(default_factory=dict)
    num_texts: int = 0
    num_characters: int = 0
    num_dropped: int = 0

    @property
    def num_words(self) -> int:
        """Words in all, repeated ones as often as they occur."""
        return sum(self.counts.values())

    def facts(self) -> dict[str, int]:
        """What was read, for the tokenizer's configuration."""
        return {
            "texts": self.num_texts,
            "characters": self.num_characters,
            "words": self.num_words,
            "distinct_words": len(self.counts),
        }


def count_words(texts: Iterable[str], normalizer: Any, pre_tokenizer: Any | None) -> WordCounts:
    """Count the words of `texts` as the library would split them.

    normalizer: of the library; pre_tokenizer: one that isolates single characters (punctuation), or None to
    split at white space alone. Raises InputError when there is no word at all.
    """
    raw = _count_raw(texts)
    words: dict[str, int] = {}
    split = _splitter(pre_tokenizer)
    for word, count in raw.counts.items():
        for part in split(normalizer.normalize_str(word)):
            words[part] = words.get(part, 0) + count
    if not words:
        raise InputError("There is no text to train on: the corpus has no words.")
    raw.counts = words
    return raw


def _count_raw(texts: Iterable[str]) -> WordCounts:
    """Count what stands between white space, as it is written."""
    counts: Counter[str] = Counter()
    result = WordCounts()
    for text in texts:
        try:
            text.encode("utf-8")
        except (AttributeError, UnicodeEncodeError):
            refuse_non_texts([text])
        counts.update(_REMOVED.sub("", text).split())
        result.num_texts += 1
        result.num_characters += len(text)
        if result.num_texts % _CHECK_EVERY == 0 and len(counts) > MAX_DISTINCT:
            counts = Counter({word: count for word, count in counts.items() if count > 1})
            result.num_dropped += 1
    result.counts = counts
    return result


def _splitter(pre_tokenizer: Any | None) -> Callable[[str], Iterator[str] | list[str]]:
    """Split one normalised word; which characters stand alone is asked of the library once per character."""
    if pre_tokenizer is None:
        return str.split
    isolated: dict[str, bool] = {}

    def split(word: str) -> Iterator[str]:
        """The parts of one normalised word: runs of characters, and each isolated character by itself."""
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
    """Whether `character` is always a word of its own."""
    return len(pre_tokenizer.pre_tokenize_str(f"a{character}a")) > 1


@dataclass
class Alphabet:
    """The characters that a vocabulary spells with, and the words that it can spell."""

    characters: list[str]
    words: dict[str, int]
    num_left_out: int


def choose_alphabet(counts: dict[str, int], limit: int) -> Alphabet:
    """The `limit` most frequent characters in code point order, and the words made of them alone.

    Words with another character, or beyond `MAX_WORD_CHARACTERS`, are left out and counted (by occurrences).
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
