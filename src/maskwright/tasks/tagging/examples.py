"""Tagged sentences as subword tokens: each word is classified at its first token; long sentences become windows.

Neighboring windows share a quarter of their tokens. A word is classified once, in the window with the most context
around it, so nothing is truncated and the loss counts each word once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...core.errors import InputError
from ...data.batch import Batch
from ...text.tokenizers.encoding import Encoding, TextCounts
from ...text.words import Sentence, Span, is_visible
from ..examples import TOKENIZE_ROWS, Examples
from .schemes import Notation, repair, spans

if TYPE_CHECKING:
    from ...text.tokenizers.tokenizer import Tokenizer

SHARED = 4  # neighboring windows share 1/4 of their tokens
IGNORED = -100  # target of a word without a gold tag, as of cross_entropy


@dataclass
class GoldTags:
    """Gold tags of sentences, as a task has read them.

    notation: that of the sentences, None for plain tags; rows: those with known tags; targets: label of each of their
    words, IGNORED for a word without a tag; num_repaired: number of tags that were invalid in the scheme; num_merged:
    number of entities that the scheme of the task cannot tell from others; missing: how often each mark of a missing
    tag occurs.
    """

    notation: Notation | None = None
    rows: list[Sentence] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    num_repaired: int = 0
    num_merged: int = 0
    missing: Counter[str] = field(default_factory=Counter)

    def repaired(self, tags: Sequence[str], scheme: str | None) -> Sequence[str]:
        if scheme is None or self.notation is None:
            return tags
        valid, changed = repair(tags, self.notation.scheme)
        if self.notation.scheme != scheme:
            valid = repair(tags, scheme)[0]
            self.num_merged += len(spans(tags)) - len(spans(valid))
        self.num_repaired += changed
        return valid


@dataclass(frozen=True)
class TaggedExamples(Examples):
    """Sentences as windows: `input_ids` has one entry per window; `targets` are the tags, int64 [words].

    places, words: for each window int64 [classified words], position of the first token of each word it classifies, and
    the index of that word over all sentences; starts: int64 [sentences + 1], number of words before each sentence;
    gold: what was read to make the targets.
    """

    places: Sequence[np.ndarray] = field(default=(), repr=False)
    words: Sequence[np.ndarray] = field(default=(), repr=False)
    starts: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64), repr=False)
    gold: GoldTags | None = field(default=None, repr=False)

    @property
    def num_repaired(self) -> int:
        return 0 if self.gold is None else self.gold.num_repaired

    @cached_property
    def _edges(self) -> frozenset[int]:
        return frozenset(self.starts.tolist())

    @property
    def num_rows(self) -> int:
        return len(self.starts) - 1

    @property
    def num_words(self) -> int:
        return int(self.starts[-1])

    @property
    def num_words_by_row(self) -> list[int]:
        return [end - start for start, end in pairwise(self.starts.tolist())]

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Packs the windows `indices`, shortest first.

        Batch labels, int64: "example" [sequences], window of each sequence; "places", "words" [words], packed position
        of the first token of each classified word, and its index over all sentences; "tags" [words], if there are
        targets; "chain" [chains], number of words of each chain: those of a sequence, without words that have no tag,
        where it ends; "is_first", "is_last" bool [chains], whether they begin and end their sentence.
        """
        batch = super().batch(indices)
        windows = batch.labels["example"].tolist()
        offsets, edges = batch.cu_seqlens.tolist(), self._edges
        chains: list[tuple[np.ndarray, np.ndarray]] = []  # packed places, words
        for window, offset in zip(windows, offsets, strict=False):
            chains += self._chains(self.places[window] + offset, self.words[window])
        words = torch.from_numpy(np.concatenate([own for _, own in chains]))
        labels = {
            "example": batch.labels["example"],
            "places": torch.from_numpy(np.concatenate([places for places, _ in chains])),
            "words": words,
            "chain": torch.tensor([len(own) for _, own in chains]),
            "is_first": torch.tensor([len(own) > 0 and int(own[0]) in edges for _, own in chains]),
            "is_last": torch.tensor([len(own) > 0 and int(own[-1]) + 1 in edges for _, own in chains]),
        }
        if self.targets is not None:
            labels["tags"] = self.targets[words]
        return replace(batch, labels=labels)

    def _chains(self, places: np.ndarray, words: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Splits the words of a window at those without a tag, and their places."""
        if self.targets is None:
            return [(places, words)]
        is_known = self.targets[words].numpy() != IGNORED
        cuts = np.flatnonzero(np.diff(is_known)) + 1
        parts = zip(np.split(places, cuts), np.split(words, cuts), np.split(is_known, cuts), strict=True)
        known = [(own, others) for own, others, are_known in parts if are_known.all()]
        return known or [(places[:0], words[:0])]


def window_sentences(
    rows: Sequence[Sentence],
    tokenizer: Tokenizer,
    max_length: int | None,
    gold: GoldTags | None = None,
    *,
    counts: TextCounts | None = None,
) -> TaggedExamples:
    """Tokenizes sentences as windows of at most `max_length` tokens (None: one window per sentence).

    gold: their tags; counts: accumulates unknown tokens; nothing is truncated. Raises InputError for a word without
    tokens if the vocabulary has no unknown token.
    """
    counts = TextCounts() if counts is None else counts
    input_ids: list[np.ndarray] = []
    places: list[np.ndarray] = []
    words: list[np.ndarray] = []
    starts = [0]
    for begin in range(0, len(rows), TOKENIZE_ROWS):
        for windows, first_tokens in _encode(rows[begin : begin + TOKENIZE_ROWS], tokenizer, max_length):
            owners = best_windows(windows, first_tokens)
            order = np.argsort(owners, kind="stable")  # words, those of the first window first
            owns = np.split(order, np.searchsorted(owners[order], np.arange(1, len(windows))))
            for window, own in zip(windows, owns, strict=True):
                first = window.windows[0][0] - len(window.template.gaps[0][0])
                input_ids.append(np.asarray(window.ids, dtype=np.int32))
                places.append(first_tokens[own] - first)
                words.append(own + starts[-1])
                counts.add(len(window), 0, window.num_unknown, window.template.num_special)
            counts.texts -= len(windows) - 1
            starts.append(starts[-1] + len(first_tokens))
    targets = None if gold is None else torch.tensor(gold.targets)
    return TaggedExamples(
        input_ids, None, targets, rows, counts, places=places, words=words, starts=np.asarray(starts), gold=gold
    )


def _encode(
    rows: Sequence[Sentence], tokenizer: Tokenizer, max_length: int | None
) -> list[tuple[list[Encoding], np.ndarray]]:
    """For each sentence its windows, and the first subword token of each word: int64 [words]."""
    room = 0 if max_length is None else max_length - len(tokenizer(""))
    stride = max(room, 0) // SHARED

    def encode(sentences: Sequence[Sequence[str]]) -> list[Encoding]:
        texts = [" ".join(words) for words in sentences]
        return tokenizer.encode_batch(texts, max_length, stride=stride, truncation_side="right")

    encodings = encode([row.words for row in rows])
    found = []
    for row, encoding in zip(rows, encodings, strict=True):
        first, chosen = _first_tokens(encoding.pieces[0].offsets, row.words), encoding
        if (first < 0).any():
            shown = [
                _unknown(row, tokenizer) if place < 0 else word for word, place in zip(row.words, first, strict=True)
            ]
            chosen = encode([shown])[0]
            first = _first_tokens(chosen.pieces[0].offsets, shown)
        found.append(([chosen, *chosen.overflowing], first))
    return found


def _unknown(row: Sentence, tokenizer: Tokenizer) -> str:
    if tokenizer.unk_id is None:
        raise InputError(f"{row.file}, line {row.line}: the tokenizer has no token for a word of this sentence.")
    return tokenizer.special_tokens["unk"]


def _first_tokens(offsets: Sequence[Span], words: Sequence[str]) -> np.ndarray:
    """The first subword token that overlaps each word, -1 if there is none: int64 [words].

    offsets: character range of each token in the words joined by spaces. A token can belong to several words.
    """
    first = np.full(len(words), -1, dtype=np.int64)
    token = start = 0
    for number, word in enumerate(words):
        end = start + len(word)
        while token < len(offsets) and offsets[token][1] <= start:
            token += 1
        if token < len(offsets) and offsets[token][0] < end and offsets[token][1] > offsets[token][0]:
            first[number] = token
        start = end + 1
    return first


def best_windows(windows: Sequence[Encoding], tokens: np.ndarray) -> np.ndarray:
    """The window with the most context around each token, the first of equal ones: int64 [tokens].

    Time and memory are linear in the total length of the windows.
    """
    last = max(window.windows[0][1] for window in windows)
    most, owner = np.full(last, -1, dtype=np.int64), np.zeros(last, dtype=np.int64)
    for number, window in enumerate(windows):
        start, end = window.windows[0]
        own = np.arange(start, end)
        before = own - start if start else np.full(end, last)
        after = end - 1 - own if end < last else np.full(end - start, last)
        around = np.minimum(before, after)
        better = own[around > most[start:end]]
        most[better], owner[better] = around[better - start], number
    return owner[tokens]


def entities_of(row: Sentence, tags: Sequence[str], confidences: Sequence[float]) -> list[dict[str, Any]]:
    """The entities of a sentence, with the mean confidence of their tags; see `Tagging.answers`."""
    found = []
    for type, first, end in spans(tags):
        if not any(map(is_visible, row.words[first:end])):
            continue
        start, stop = row.spans[first][0], row.spans[end - 1][1]
        score = sum(confidences[first:end]) / (end - first)
        found.append({"type": type, "text": row.text[start:stop], "start": start, "end": stop, "score": score})
    return found
