"""Byte-pair encoding as it is taught: the end of a word is a symbol of its own and takes part in merges.

Sennrich et al. 2016, algorithm 1: start from characters, merge the most frequent neighbouring pair, repeat.
Several pairs are often equally frequent; which is merged is a free choice that other trainers make silently.
Here it is named (`tie_break`), and the default, the pair seen first when the corpus is read from its start,
gives the textbook's order.

Cost: a heap of pairs whose entries are checked when they come up, since a count can only fall and a first
place only move back unless the pair is pushed again: O((words touched + pairs changed) log pairs) in all.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ...core.errors import ConfigError
from ..vocabulary import END_OF_WORD
from . import pipelines
from .pipelines import SPECIAL_TOKENS, Trained
from .segmentation import Pair, Segmentation
from .words import choose_alphabet, count_words

TieBreak = Literal["first", "last", "lexicographic"]


@dataclass(frozen=True)
class Merge:
    """One learned merge: the pair, and its count when it was chosen."""

    left: str
    right: str
    count: int

    @property
    def merged(self) -> str:
        """The new symbol."""
        return self.left + self.right


def train_bpe(
    texts: Iterable[str],
    vocab_size: int,
    *,
    lowercase: bool = True,
    num_merges: int | None = None,
    tie_break: TieBreak = "first",
    limit_alphabet: int = pipelines.LIMIT_ALPHABET,
    split_punctuation: bool = False,
) -> Trained:
    """Learn merges up to `vocab_size` tokens or `num_merges` merges, or until no pair is left.

    tie_break: which of several most frequent pairs: the one seen "first" or "last" in the corpus, or the
    first in the "lexicographic" order of its two symbols. split_punctuation: make punctuation marks words of
    their own; by default a word is what stands between spaces, so that decoding brings every space back.
    """
    splitter = pipelines.punctuation_splitter() if split_punctuation else None
    words = count_words(texts, pipelines.normalizer(lowercase, isolate_cjk=split_punctuation), splitter)
    alphabet = choose_alphabet(words.counts, limit_alphabet)
    start = [*SPECIAL_TOKENS, *alphabet.characters, END_OF_WORD]
    pipelines.require_room(vocab_size, len(start), "special tokens, characters and the end of a word")
    vocab = list(start)
    merges: list[tuple[str, str]] = []
    known = set(start)
    for merge in learn_merges(alphabet.words, tie_break):
        if len(vocab) >= vocab_size or len(merges) == num_merges:
            break
        merges.append((merge.left, merge.right))
        if merge.merged not in known:
            known.add(merge.merged)
            vocab.append(merge.merged)
    facts: dict[str, Any] = {
        "vocab_size_wanted": vocab_size,
        "merges": len(merges),
        "tie_break": tie_break,
        "split_punctuation": split_punctuation,
        **words.facts(),
        "words_left_out": alphabet.num_left_out,
    }
    return pipelines.bpe(vocab, merges, lowercase=lowercase, split_punctuation=split_punctuation, facts=facts)


def split_word(word: str) -> list[str]:
    """The symbols that a word starts from."""
    return [*word, END_OF_WORD]


def learn_merges(words: dict[str, int], tie_break: TieBreak = "first") -> Iterator[Merge]:
    """Merges over counted words, best first, for as long as there are pairs."""
    yield from MergeLearner(Segmentation((split_word(word), count) for word, count in words.items()), tie_break)


class MergeLearner:
    """Iterates over the merges of a segmentation, which shows the state after each (`segmentation`)."""

    def __init__(self, segmentation: Segmentation, tie_break: TieBreak = "first") -> None:
        if tie_break not in get_args(TieBreak):
            raise ConfigError(f"tie_break='{tie_break}' is not known: use {', '.join(get_args(TieBreak))}.")
        self.segmentation = segmentation
        self.tie_break = tie_break
        self.ranks: dict[Pair, tuple[int, int]] = {}
        self._heap = [self._entry(pair) for pair in segmentation.pair_counts if self._is_allowed(pair)]
        heapq.heapify(self._heap)

    def __iter__(self) -> Iterator[Merge]:
        state = self.segmentation
        while (pair := self._pop()) is not None:
            merge = Merge(state.names[pair[0]], state.names[pair[1]], state.pair_counts[pair])
            is_known = merge.merged in state.numbers
            merged = state.number(merge.merged)
            self.ranks[pair] = (len(self.ranks), merged)
            # A symbol that could already be built another way may set off merges learned for it before.
            for risen in state.merge(pair, merged, self.ranks if is_known else None).risen:
                if risen in state.pair_counts and self._is_allowed(risen):
                    heapq.heappush(self._heap, self._entry(risen))
            yield merge

    def _pop(self) -> Pair | None:
        """The best pair. Entries give a bound that can only be too good: a wrong one goes back corrected."""
        while self._heap:
            entry = heapq.heappop(self._heap)
            pair = entry[-1]
            count = self.segmentation.pair_counts.get(pair)
            if count is None:
                continue
            # The place is looked up only once the count is right: that is the dearer of the two.
            right = self._entry(pair) if -count == entry[0] else (-count, *entry[1:])
            if right == entry:
                return pair
            heapq.heappush(self._heap, right)
        return None

    def _entry(self, pair: Pair) -> tuple[Any, ...]:
        """The heap's order: most frequent first, then the tie rule."""
        state = self.segmentation
        count = state.pair_counts[pair]
        if self.tie_break == "first":
            return (-count, *state.first_position(pair), pair)
        if self.tie_break == "last":
            index, offset = state.last_position(pair)
            return (-count, -index, -offset, pair)
        return (-count, state.names[pair[0]], state.names[pair[1]], pair)

    def _is_allowed(self, pair: Pair) -> bool:
        """Text that spells the end-of-word symbol must not be joined into something that looks like it."""
        names = self.segmentation.names
        left, right = names[pair[0]], names[pair[1]]
        return END_OF_WORD not in left + right.removesuffix(END_OF_WORD)
