"""Word-level and character-level vocabularies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import pipelines
from .pipelines import SPECIAL_TOKENS, Trained
from .words import choose_alphabet, count_words


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
