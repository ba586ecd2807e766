"""Byte-pair encoding as taught: the end of a word is a separate symbol that takes part in merges.

Sennrich et al. 2016, algorithm 1: start from characters, merge the most frequent adjacent pair, repeat. Several pairs
are often equally frequent; other trainers choose among them silently. Here the rule is explicit (`tie_break`), and the
default, the pair that occurs first in the corpus, gives the textbook's order.

Cost: a heap of pairs whose entries are verified when popped, since a count can only decrease and a first position only
move back unless the pair is pushed again: O((words touched + pairs changed) log pairs) in total.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ....core.errors import ConfigError, InputError
from ...readers.inputs import reject_non_texts
from ..vocabulary import END_OF_WORD
from . import pipelines
from .pipelines import SPECIAL_TOKENS, Trained
from .words import Pair, Segmentation, choose_alphabet, count_words, most_common

TieBreak = Literal["first", "last", "lexicographic"]


@dataclass(frozen=True)
class Merge:
    """One learned merge: the pair, and its count when it was selected."""

    left: str
    right: str
    count: int

    @property
    def merged(self) -> str:
        """The merged symbol."""
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

    tie_break: among the most frequent pairs, select the one that occurs "first" or "last" in the corpus, or the first
    in "lexicographic" order. split_punctuation: make punctuation marks separate words; by default words are delimited
    by whitespace, so that decoding restores every space.
    """
    splitter = pipelines.punctuation_splitter() if split_punctuation else None
    words = count_words(texts, pipelines.normalizer(lowercase, isolate_cjk=split_punctuation), splitter)
    alphabet = choose_alphabet(words.counts, limit_alphabet)
    start = [*SPECIAL_TOKENS, *alphabet.characters, END_OF_WORD]
    pipelines.require_vocab_size(vocab_size, len(start), "special tokens, characters and the end of a word")
    vocab = list(start)
    merges: list[tuple[str, str]] = []
    known = set(start)
    for merge in learn_merges(most_common(alphabet.words), tie_break):
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
    """Returns the initial symbols of a word."""
    return [*word, END_OF_WORD]


def learn_merges(words: dict[str, int], tie_break: TieBreak = "first") -> Iterator[Merge]:
    """Yields merges learned from word counts, best first, until no pair is left."""
    yield from MergeLearner(Segmentation((split_word(word), count) for word, count in words.items()), tie_break)


class MergeLearner:
    """Iterates over the merges of a segmentation, whose state after each is available as `segmentation`."""

    def __init__(self, segmentation: Segmentation, tie_break: TieBreak = "first") -> None:
        if tie_break not in get_args(TieBreak):
            raise ConfigError(f"tie_break='{tie_break}' is not valid: use {', '.join(get_args(TieBreak))}.")
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
            # A symbol that could already be built in another way may trigger merges learned before it.
            for risen in state.merge(pair, merged, self.ranks if is_known else None).risen:
                if risen in state.pair_counts and self._is_allowed(risen):
                    heapq.heappush(self._heap, self._entry(risen))
            yield merge

    def _pop(self) -> Pair | None:
        """Returns the best pair. Heap entries are optimistic bounds; outdated ones are corrected and pushed again."""
        while self._heap:
            entry = heapq.heappop(self._heap)
            pair = entry[-1]
            count = self.segmentation.pair_counts.get(pair)
            if count is None:
                continue
            # The position is looked up only for a correct count, because it is more expensive.
            right = self._entry(pair) if -count == entry[0] else (-count, *entry[1:])
            if right == entry:
                return pair
            heapq.heappush(self._heap, right)
        return None

    def _entry(self, pair: Pair) -> tuple[Any, ...]:
        """Returns the heap key: most frequent first, then the tie rule."""
        state = self.segmentation
        count = state.pair_counts[pair]
        if self.tie_break == "first":
            return (-count, *state.first_position(pair), pair)
        if self.tie_break == "last":
            index, offset = state.last_position(pair)
            return (-count, -index, -offset, pair)
        return (-count, state.names[pair[0]], state.names[pair[1]], pair)

    def _is_allowed(self, pair: Pair) -> bool:
        """Reject merges of literal text that would look like the end-of-word symbol."""
        names = self.segmentation.names
        left, right = names[pair[0]], names[pair[1]]
        return END_OF_WORD not in left + right.removesuffix(END_OF_WORD)


# -- Byte-level BPE (Radford et al. 2019, GPT-2): the alphabet is the 256 bytes, so there are no unknown tokens ------
#
# The library learns the merges. All bytes are numbered in advance and ties go to lower numbers, so runs are
# deterministic.


def train_byte_bpe(
    texts: Iterable[str], vocab_size: int, *, lowercase: bool = False, min_frequency: int = 1
) -> Trained:
    """Learn merges over bytes until the vocabulary has `vocab_size` tokens, including 256 bytes and 5 special tokens.

    min_frequency: pairs less frequent than this are not merged.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    bytes_as_characters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pipelines.require_vocab_size(vocab_size, len(SPECIAL_TOKENS) + len(bytes_as_characters), "special tokens and bytes")
    learner = Tokenizer(models.BPE())
    pipelines.configure_byte_level(learner, lowercase)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=bytes_as_characters,
        show_progress=False,
    )
    facts: dict[str, Any] = {"vocab_size_wanted": vocab_size, "texts": 0, "characters": 0, "words": 0}
    learner.train_from_iterator(_counted(texts, facts), trainer)
    if not facts["words"]:
        raise InputError("There is no text to train on: the corpus has no words.")
    return pipelines.byte_bpe(learner.model, lowercase, facts)


def _counted(texts: Iterable[str], facts: dict[str, Any]) -> Iterator[str]:
    """Yields texts and counts them."""
    for text in texts:
        try:
            text.encode("utf-8")
        except (AttributeError, UnicodeEncodeError):
            reject_non_texts([text])
        facts["texts"] += 1
        facts["characters"] += len(text)
        facts["words"] += len(text.split())
        yield text
