"""WordPiece by frequency, as BERT vocabularies are built in practice: merge the most frequent pair, ## inside words.

The library's trainer does the merging. By default it numbers the ##-characters in hash-table order, which differs
between runs; here every character is numbered in advance, which makes results reproducible byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from . import pipelines
from .pipelines import SPECIAL_TOKENS, Trained
from .words import Alphabet, Pair, Segmentation, WordCounts, choose_alphabet, count_words, is_isolated, most_common

PREFIX = "##"
_WORDS_PER_CHUNK = 10_000


def train_wordpiece(
    texts: Iterable[str],
    vocab_size: int,
    *,
    lowercase: bool = True,
    limit_alphabet: int = pipelines.LIMIT_ALPHABET,
    min_frequency: int = 1,
) -> Trained:
    """Merge the most frequent pair until the vocabulary has `vocab_size` tokens.

    limit_alphabet: number of most frequent characters to keep; a word with any other character is [UNK]. min_frequency:
    pairs less frequent are not merged. The vocabulary is smaller if no pair is left, as the training metadata shows.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    words, alphabet, start = count_and_start(texts, vocab_size, lowercase, limit_alphabet)
    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=start,
        initial_alphabet=alphabet.characters,
        limit_alphabet=len(alphabet.characters),
        show_progress=False,
    )
    facts: dict[str, Any] = {
        "vocab_size_wanted": vocab_size,
        **words.facts(),
        "words_left_out": alphabet.num_left_out,
    }
    learned = most_common(alphabet.words)
    del words, alphabet  # free memory for the library
    learner.train_from_iterator(repeated(learned), trainer)
    ids = learner.get_vocab()
    return pipelines.wordpiece(sorted(ids, key=ids.__getitem__), "wordpiece", lowercase, facts)


def count_and_start(
    texts: Iterable[str], vocab_size: int, lowercase: bool, limit_alphabet: int
) -> tuple[WordCounts, Alphabet, list[str]]:
    """Returns the word counts, their alphabet and `base_vocabulary`; arguments as in `train_wordpiece`."""
    splitter = pipelines.punctuation_splitter()
    words = count_words(texts, pipelines.normalizer(lowercase), splitter)
    alphabet = choose_alphabet(words.counts, limit_alphabet)
    start = base_vocabulary(alphabet.characters, splitter)
    pipelines.require_vocab_size(vocab_size, len(start), "special tokens and characters")
    return words, alphabet, start


def base_vocabulary(characters: list[str], splitter: Any) -> list[str]:
    """Returns special tokens, every character, and its ## form if it can occur inside a word.

    With these, no word of known characters is [UNK].
    """
    inside = [character for character in characters if not is_isolated(character, splitter)]
    return [*SPECIAL_TOKENS, *characters, *(PREFIX + character for character in inside)]


def repeated(words: dict[str, int]) -> Iterator[str]:
    """Yields each word as often as it was counted, in chunks, because the library takes text, not counts."""
    chunk: list[str] = []
    for word, count in words.items():
        whole, rest = divmod(count, _WORDS_PER_CHUNK)
        for _ in range(whole):
            yield f"{word} " * _WORDS_PER_CHUNK
        chunk += [word] * rest
        if len(chunk) >= _WORDS_PER_CHUNK:
            yield " ".join(chunk)
            chunk = []
    yield " ".join(chunk)


# -- WordPiece by score: merge the pair that is most frequent relative to the frequencies of its parts ---------------
#
# Schuster and Nakajima 2012 select the merge that increases the likelihood of the text most; the common form is
#
#     score(a, b) = count(ab) / (count(a) * count(b))
#
# Ties go to the pair that occurs first in the corpus. The rule favors rare parts: on raw text a higher `min_frequency`
# avoids spending the vocabulary on pairs that occur once.
#
# Cost: every step scores all P pairs in one vector operation, O(merges * P) in total; counts are updated as in BPE.


@dataclass(frozen=True)
class ScoredMerge:
    """One learned merge: the pair, its count and the counts of its parts when it was selected."""

    left: str
    right: str
    count: int
    left_count: int
    right_count: int

    @property
    def merged(self) -> str:
        """The merged subword."""
        return merged_name(self.left, self.right)

    @property
    def score(self) -> Fraction:
        """count(ab) / (count(a) * count(b)), exactly."""
        return Fraction(self.count, self.left_count * self.right_count)


def train_wordpiece_score(
    texts: Iterable[str],
    vocab_size: int,
    *,
    lowercase: bool = True,
    limit_alphabet: int = pipelines.LIMIT_ALPHABET,
    min_frequency: int = 1,
) -> Trained:
    """Merge the pair with the highest score until the vocabulary has `vocab_size` tokens, or no pair is left.

    limit_alphabet: number of most frequent characters to keep. min_frequency: pairs less frequent are not merged.
    """
    words, alphabet, vocab = count_and_start(texts, vocab_size, lowercase, limit_alphabet)
    known = set(vocab)
    merges = learn_scored_merges(most_common(alphabet.words), min_frequency)
    while len(vocab) < vocab_size and (merge := next(merges, None)) is not None:
        if merge.merged not in known:
            known.add(merge.merged)
            vocab.append(merge.merged)
    facts: dict[str, Any] = {
        "vocab_size_wanted": vocab_size,
        "min_frequency": min_frequency,
        **words.facts(),
        "words_left_out": alphabet.num_left_out,
    }
    return pipelines.wordpiece(vocab, "wordpiece-score", lowercase, facts)


def split_word(word: str) -> list[str]:
    """Returns the initial subwords of a word: its characters, with ## before all but the first."""
    return [word[0], *(PREFIX + character for character in word[1:])]


def merged_name(left: str, right: str) -> str:
    """Returns the subword that two adjacent ones form."""
    return left + right.removeprefix(PREFIX)


def learn_scored_merges(words: dict[str, int], min_frequency: int = 1) -> Iterator[ScoredMerge]:
    """Yields merges learned from word counts, highest score first, until no pair is left."""
    yield from ScoreLearner(Segmentation((split_word(word), count) for word, count in words.items()), min_frequency)


class ScoreLearner:
    """Iterates over the merges of a segmentation, whose state after each is available as `segmentation`.

    Pairs are rows of arrays: left, right: int64 symbol numbers; count: int64 (0 for removed pairs); first_word: int64,
    a lower bound of the first word with the pair, made exact when it decides.
    """

    def __init__(self, segmentation: Segmentation, min_frequency: int = 1) -> None:
        self.segmentation = segmentation
        self.min_frequency = max(1, min_frequency)
        self._pairs: list[Pair] = []
        self._rows: dict[Pair, int] = {}
        self._table = np.zeros((4, 1024), dtype=np.int64)
        self._symbol_counts = np.array(segmentation.symbol_counts, dtype=np.float64)
        for pair in segmentation.pair_counts:
            self._update(pair)

    def __iter__(self) -> Iterator[ScoredMerge]:
        state = self.segmentation
        while (pair := self.best()) is not None:
            left, right = pair
            merge = ScoredMerge(
                state.names[left],
                state.names[right],
                state.pair_counts[pair],
                state.symbol_counts[left],
                state.symbol_counts[right],
            )
            merged = state.number(merge.merged)
            risen, fallen = state.merge(pair, merged)
            for other in (pair, *(fallen - risen)):
                self._table[2, self._rows[other]] = state.pair_counts.get(other, 0)
            for other in risen:
                self._update(other)
            self._count_symbols((left, right, merged))
            yield merge

    def best(self) -> Pair | None:
        """Returns the pair with the highest score; ties go to the first occurrence."""
        left, right, count = self._table[:3, : len(self._pairs)]
        symbols = self._symbol_counts
        is_open = count >= self.min_frequency
        if not is_open.any():
            return None
        scores = np.divide(count, symbols[left] * symbols[right], out=np.zeros(len(count)), where=is_open)
        # Rounding is far smaller than the gap between different scores, but near-ties are compared exactly.
        near = np.flatnonzero(scores >= scores.max() * (1 - 1e-12))
        exact = [self._score(self._pairs[row]) for row in near] if len(near) > 1 else [Fraction(1)]
        top = max(exact)
        tied = [int(row) for row, score in zip(near, exact, strict=True) if score == top]
        return self._pairs[self._first_seen(tied)]

    def _score(self, pair: Pair) -> Fraction:
        counts = self.segmentation.symbol_counts
        return Fraction(self.segmentation.pair_counts[pair], counts[pair[0]] * counts[pair[1]])

    def _first_seen(self, rows: list[int]) -> int:
        """Returns the row whose pair occurs first in the corpus."""
        if len(rows) == 1:
            return rows[0]
        first_word = self._table[3]
        while True:
            bound = min(int(first_word[row]) for row in rows)
            leaders = [row for row in rows if first_word[row] == bound]
            positions = {row: self.segmentation.first_position(self._pairs[row]) for row in leaders}
            exact = [row for row in leaders if positions[row][0] == bound]
            if exact:
                return min(exact, key=positions.__getitem__)
            for row in leaders:
                first_word[row] = positions[row][0]

    def _count_symbols(self, symbols: tuple[int, ...]) -> None:
        """Copy the counts of `symbols`, the only ones changed by a merge."""
        missing = len(self.segmentation.names) - len(self._symbol_counts)
        if missing > 0:
            self._symbol_counts = np.concatenate([self._symbol_counts, np.zeros(missing + 1024)])
        for symbol in symbols:
            self._symbol_counts[symbol] = self.segmentation.symbol_counts[symbol]

    def _update(self, pair: Pair) -> None:
        """Write the row of a pair that is new or more frequent."""
        row = self._rows.setdefault(pair, len(self._pairs))
        if row == len(self._pairs):
            self._pairs.append(pair)
            if row == self._table.shape[1]:
                self._table = np.concatenate([self._table, np.zeros_like(self._table)], axis=1)
            self._table[0, row], self._table[1, row] = pair
        words = self.segmentation.pair_words.get(pair)
        self._table[2, row] = self.segmentation.pair_counts.get(pair, 0)
        self._table[3, row] = min(words) if words else 0
