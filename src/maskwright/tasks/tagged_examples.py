"""Tagged sentences as tokens: each word is judged at its first piece, and a long sentence becomes windows.

Neighbouring windows share a quarter of their pieces, and a word is judged once, in the window that shows most around
it. So nothing is cut, however long the sentence or the word, and losses count every word once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError
from ..data.batch import Batch
from ..text.encoding import Encoding, TextCounts
from ..text.tagged import Sentence
from ..text.words import Span
from .examples import TOKENIZE_ROWS, Examples

if TYPE_CHECKING:
    from ..text.tokenizer import Tokenizer

SHARED = 4  # neighbouring windows share one piece in so many


@dataclass(frozen=True)
class TaggedExamples(Examples):
    """Sentences as windows of tokens; `input_ids` has one entry for each window, `targets` int64 [words] are its tags.

    places, words: for each window int64 [words it judges], the token that stands for each of them and which word of
    all sentences it is; starts: int64 [sentences + 1], the number of words before each sentence; num_repaired: gold
    tags that were not spelt as their scheme says.
    """

    places: Sequence[np.ndarray] = field(default=(), repr=False)
    words: Sequence[np.ndarray] = field(default=(), repr=False)
    starts: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64), repr=False)
    num_repaired: int = 0

    @property
    def num_rows(self) -> int:
        """Sentences."""
        return len(self.starts) - 1

    @property
    def num_words(self) -> int:
        """Words of all sentences."""
        return int(self.starts[-1])

    @property
    def num_words_by_row(self) -> list[int]:
        """Words of each sentence."""
        return [end - start for start, end in pairwise(self.starts.tolist())]

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Pack the windows `indices`, shortest first.

        Labels: "example" int64 [sequences], the window that each sequence is; "places" int64 [words], the token in the
        pack that stands for each word it judges; "words" int64 [words], which of all words that is; "chain" int64
        [sequences], how many of them each sequence has; "is_first", "is_last" bool [sequences], whether these words
        begin and end their sentence; "tags" int64 [words], where there are targets.
        """
        batch = super().batch(indices)
        windows = batch.labels["example"].tolist()
        offsets = batch.cu_seqlens.tolist()
        places = [self.places[window] + offset for window, offset in zip(windows, offsets, strict=False)]
        words = torch.from_numpy(np.concatenate([self.words[window] for window in windows]))
        labels = {
            "example": batch.labels["example"],
            "places": torch.from_numpy(np.concatenate(places)),
            "words": words,
            "chain": torch.tensor([len(self.words[window]) for window in windows]),
            "is_first": torch.tensor([self._begins(window) for window in windows]),
            "is_last": torch.tensor([self._ends(window) for window in windows]),
        }
        if self.targets is not None:
            labels["tags"] = self.targets[words]
        return replace(batch, labels=labels)

    def _begins(self, window: int) -> bool:
        words = self.words[window]
        return len(words) > 0 and int(words[0]) in self._edges

    def _ends(self, window: int) -> bool:
        words = self.words[window]
        return len(words) > 0 and int(words[-1]) + 1 in self._edges

    @cached_property
    def _edges(self) -> frozenset[int]:
        return frozenset(self.starts.tolist())


def window_sentences(
    rows: Sequence[Sentence],
    tokenizer: Tokenizer,
    max_length: int | None,
    targets: Tensor | None = None,
    *,
    counts: TextCounts | None = None,
    num_skipped: int = 0,
    num_repaired: int = 0,
) -> TaggedExamples:
    """Tokenise sentences in windows of at most `max_length` tokens (None: each whole).

    counts: adds up what is unknown; nothing is cut. Raises InputError for a word of which the tokenizer makes nothing,
    where its vocabulary has no token for what it does not know.
    """
    counts = TextCounts() if counts is None else counts
    input_ids: list[np.ndarray] = []
    places: list[np.ndarray] = []
    words: list[np.ndarray] = []
    starts = [0]
    for begin in range(0, len(rows), TOKENIZE_ROWS):
        for windows, first_pieces in _encode(rows[begin : begin + TOKENIZE_ROWS], tokenizer, max_length):
            judges = _judges(windows, first_pieces)
            order = np.argsort(judges, kind="stable")  # words, those of the first window first
            owns = np.split(order, np.searchsorted(judges[order], np.arange(1, len(windows))))
            for window, own in zip(windows, owns, strict=True):
                first = window.windows[0][0] - len(window.template.gaps[0][0])
                input_ids.append(np.asarray(window.ids, dtype=np.int32))
                places.append(first_pieces[own] - first)
                words.append(own + starts[-1])
                counts.add(len(window), 0, window.num_unknown, window.template.num_special)
            counts.texts -= len(windows) - 1
            starts.append(starts[-1] + len(first_pieces))
    return TaggedExamples(
        input_ids, None, targets, rows, counts, num_skipped, places, words, np.asarray(starts), num_repaired
    )


def _encode(
    rows: Sequence[Sentence], tokenizer: Tokenizer, max_length: int | None
) -> list[tuple[list[Encoding], np.ndarray]]:
    """For each sentence its windows, and the first piece of each of its words: int64 [words]."""
    room = 0 if max_length is None else max_length - len(tokenizer(""))
    stride = max(room, 0) // SHARED

    def encode(sentences: Sequence[Sequence[str]]) -> list[Encoding]:
        return tokenizer.encode_batch([" ".join(words) for words in sentences], max_length, stride=stride)

    encodings = encode([row.words for row in rows])
    found = []
    for row, encoding in zip(rows, encodings, strict=True):
        first, chosen = _first_pieces(encoding.pieces[0].offsets, row.words), encoding
        if (first < 0).any():
            shown = [
                _unknown(row, tokenizer) if place < 0 else word for word, place in zip(row.words, first, strict=True)
            ]
            chosen = encode([shown])[0]
            first = _first_pieces(chosen.pieces[0].offsets, shown)
        found.append(([chosen, *chosen.overflowing], first))
    return found


def _unknown(row: Sentence, tokenizer: Tokenizer) -> str:
    if tokenizer.unk_id is None:
        raise InputError(f"{row.file}, line {row.line}: the tokenizer makes nothing of a word of this sentence.")
    return tokenizer.special_tokens["unk"]


def _first_pieces(offsets: Sequence[Span], words: Sequence[str]) -> np.ndarray:
    """The first piece that shows something of each word, -1 where none does: int64 [words].

    offsets: of each piece in the words with a space between. A piece of several words stands for each of them.
    """
    first = np.full(len(words), -1, dtype=np.int64)
    piece = start = 0
    for number, word in enumerate(words):
        end = start + len(word)
        while piece < len(offsets) and offsets[piece][1] <= start:
            piece += 1
        if piece < len(offsets) and offsets[piece][0] < end and offsets[piece][1] > offsets[piece][0]:
            first[number] = piece
        start = end + 1
    return first


def _judges(windows: Sequence[Encoding], pieces: np.ndarray) -> np.ndarray:
    """The window that shows most around each piece, the first of equal ones: int64 [pieces].

    Only pieces of a window are compared for it, so the time and memory are those of one pass over the windows.
    """
    last = max(window.windows[0][1] for window in windows)
    most, judge = np.full(last, -1, dtype=np.int64), np.zeros(last, dtype=np.int64)
    for number, window in enumerate(windows):
        start, end = window.windows[0]
        own = np.arange(start, end)
        before = own - start if start else np.full(end, last)
        after = end - 1 - own if end < last else np.full(end - start, last)
        around = np.minimum(before, after)
        better = own[around > most[start:end]]
        most[better], judge[better] = around[better - start], number
    return judge[pieces]
