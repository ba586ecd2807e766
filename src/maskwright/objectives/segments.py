"""Training examples from documents: the spans of segment A and segment B.

Examples are consecutive text of exactly the target length, as far as the document reaches: a sentence that does not fit
is split and continues in the next example. Nearly all sequences of a batch therefore have the same length, which makes
attention over runs fast, no position is wasted, and every epoch contains every token once. For next sentence prediction
(Devlin et al. 2019, section 3.1, task 2), A ends at a sentence end, and B is randomly the text that follows or text of
another document; in the second case, the text after A is used by the next example. For sentence order prediction (Lan
et al. 2020, section 3.1), B always follows A, and the two are randomly swapped.

Only the meaning of the text may reveal the label. A random B is therefore the text after another A of another document
(see `random_partners`), and the two segments of a sentence-order example begin and end in the same way.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np


class Example(NamedTuple):
    """Token spans inside documents. B is empty (start == stop) for a single segment.

    is_random: B is from another document; is_swapped: B precedes A in the text.
    """

    a_document: int
    a_start: int
    a_stop: int
    b_document: int = 0
    b_start: int = 0
    b_stop: int = 0
    is_random: bool = False
    is_swapped: bool = False


def sentence_bounds(sentence_lengths: np.ndarray) -> list[int]:
    """Return the token offsets of the sentences of a document, [0, ..., tokens], without empty sentences."""
    return [0, *np.cumsum(sentence_lengths[sentence_lengths > 0]).tolist()]


def target_lengths(max_tokens: int, short_share: float, rng: np.random.Generator) -> Callable[[], int]:
    """Draws the length of each example: mostly `max_tokens`, with probability `short_share` a random shorter one.

    Short examples keep the positions of fine-tuning's short inputs in training (the published short_seq_prob, 0.1).
    """
    return lambda: int(rng.integers(2, max_tokens + 1)) if rng.random() < short_share else max_tokens


def plan_singles(
    bounds: dict[int, list[int]], max_tokens: int, short_share: float, rng: np.random.Generator
) -> list[Example]:
    """Examples of one segment: each document cut into consecutive spans of at most `max_tokens` tokens.

    bounds: offsets of the sentences by document, from `sentence_bounds`.
    """
    next_length = target_lengths(max_tokens, short_share, rng)
    examples = []
    for document, edges in bounds.items():
        start, end = 0, edges[-1]
        while start < end:
            stop = min(start + next_length(), end)
            examples.append(Example(document, start, stop))
            start = stop
    return examples


def plan_pairs(
    bounds: dict[int, list[int]], max_tokens: int, short_share: float, rng: np.random.Generator
) -> list[Example]:
    """Examples of two segments, half with the text that follows, half with text of another document.

    bounds: offsets of the sentences by document, from `sentence_bounds`. Returns the examples in document order; A and
    B have `max_tokens` tokens at most together. A single token has no pair and is skipped. Empty unless two documents
    have two tokens each.
    """
    next_length = target_lengths(max_tokens, short_share, rng)
    spans, is_random = [], []
    for document, edges in bounds.items():
        start, end = 0, edges[-1]
        while end - start >= 2:
            stop = min(start + next_length(), end)
            first, last = bisect_right(edges, start), bisect_left(edges, stop)
            ends_sentence = first < last  # A ends at a random sentence end; in the middle where one sentence fills it
            middle = edges[int(rng.integers(first, last))] if ends_sentence else (start + stop + 1) // 2
            spans.append(PairSpan(document, start, middle, stop, end, ends_sentence))
            is_random.append(bool(rng.random() < 0.5))
            # What followed A was not used: it begins the next example (a halved sentence has been seen enough).
            start = middle if is_random[-1] and ends_sentence else stop
    partners = random_partners(spans, is_random, max_tokens, rng)
    if partners is None:
        return []
    return [
        Example(span.document, span.start, span.middle, span.document, span.middle, span.stop)
        if partner is None
        else Example(span.document, span.start, span.middle, *partner, True)
        for span, partner in zip(spans, partners, strict=True)
    ]


def plan_ordered(
    bounds: dict[int, list[int]], max_tokens: int, short_share: float, rng: np.random.Generator
) -> list[Example]:
    """Examples of two neighboring segments of a document, half of them swapped.

    bounds: offsets of the sentences by document, from `sentence_bounds`. Both segments are whole sentences, so that
    neither shows where the span ends. A sentence without a neighbor that fits is halved, and as both halves then end
    inside a sentence where they meet, some tokens at its beginning and its end are skipped.
    """
    next_length = target_lengths(max_tokens, short_share, rng)
    examples = []
    for document, edges in bounds.items():
        # The sentence that did not fit begins the next span and is longer than most: in half of the documents spans are
        # filled from the end, so that the first segment is not the longer one.
        is_mirrored = rng.random() < 0.5
        mirrored = [edges[-1] - edge for edge in reversed(edges)] if is_mirrored else edges
        for span in _ordered_spans(mirrored, next_length, max_tokens, rng):
            start, middle, stop = [edges[-1] - place for place in reversed(span)] if is_mirrored else span
            first, second = (document, start, middle), (document, middle, stop)
            is_swapped = bool(rng.random() < 0.5)
            pair = (*second, *first) if is_swapped else (*first, *second)
            examples.append(Example(*pair, is_swapped=is_swapped))
    return examples


def _ordered_spans(
    edges: list[int], next_length: Callable[[], int], max_tokens: int, rng: np.random.Generator
) -> Iterator[tuple[int, int, int]]:
    """Start, middle and stop of each example of a document: all three between sentences, or all three inside one."""
    sentence, count = 0, len(edges) - 1
    while sentence < count:
        wanted = next_length()
        last = bisect_right(edges, edges[sentence] + wanted) - 1
        if last < sentence + 2 <= count and edges[sentence + 2] - edges[sentence] <= max_tokens:
            last = sentence + 2  # two sentences, though a short example was wanted
        if last < sentence + 2:
            yield from _halves(edges[sentence], edges[sentence + 1], wanted, rng)
            sentence += 1
            continue
        if count - last == 1 and last - sentence > 2:
            last -= 1  # so that the last sentence is not alone
        yield edges[sentence], edges[int(rng.integers(sentence + 1, last))], edges[last]
        sentence = last


def _halves(start: int, stop: int, wanted: int, rng: np.random.Generator) -> Iterator[tuple[int, int, int]]:
    """Spans of at most `wanted` tokens inside one sentence, each in two halves; a coin decides which half is longer."""
    most = max(min(stop - start, wanted) // 8, 1)
    start, stop = start + int(rng.integers(1, most + 1)), stop - int(rng.integers(1, most + 1))
    while stop - start >= 2:
        end = min(start + wanted, stop)
        yield start, (start + end + int(rng.integers(2))) // 2, end
        start = end


# -- The random B of next sentence prediction: what follows another A, in another document -----------------------------
#
# If a random B were drawn in any other way than a true one, its length, its place in its document or the way it begins
# and ends would reveal the label. So it is drawn from the text that follows the A of other examples, and there it is
# one of the most similar to the text that it replaces: both begin a sentence or neither does, both end their document
# or neither does, and they are as long (if they end their document) or begin as far into it (if not; then they are
# truncated to the same length).

BLOCK = 1 << 13  # spans whose candidates are compared at once
WINDOW = 16  # nearest examples on either side that a partner is taken from
_OTHER_KIND, _DOES_NOT_FIT = 1e9, 1e6  # more than any difference in tokens


class PairSpan(NamedTuple):
    """A span of a document, `start` to `stop`, divided at `middle` into A and the text that follows it.

    size: tokens of the document; ends_sentence: whether a sentence ends at `middle`.
    """

    document: int
    start: int
    middle: int
    stop: int
    size: int
    ends_sentence: bool


def random_partners(
    spans: list[PairSpan], is_random: list[bool], max_tokens: int, rng: np.random.Generator
) -> list[tuple[int, int, int] | None] | None:
    """For each span that gets a random B: document, start and stop of it; None for the others.

    max_tokens: of A and B together. Returns None when all spans are of one document.
    """
    if len({span.document for span in spans}) < 2:
        return None
    candidates = _Candidates(np.array(spans, dtype=np.int64), max_tokens)
    rows = np.flatnonzero(is_random)
    partners: list[tuple[int, int, int] | None] = [None] * len(spans)
    for first in range(0, len(rows), BLOCK):
        block = rows[first : first + BLOCK]
        found = np.column_stack(candidates.partners(block, rng)).tolist()
        for row, (document, start, stop) in zip(block.tolist(), found, strict=True):
            partners[row] = (document, start, stop)
    return partners


class _Candidates:
    """All spans, so sorted that similar ones are neighbors. table: int64 [spans, fields of PairSpan]."""

    def __init__(self, table: np.ndarray, max_tokens: int) -> None:
        self.document, self.start, self.middle, self.stop, self.size, self.ends_sentence = table.T
        self.room = max_tokens - (self.middle - self.start)  # for B
        self.length, self.is_last = self.stop - self.middle, self.stop == self.size
        self.kind = 2 * self.is_last + self.ends_sentence
        by_length, by_middle = (self.length, self.middle), (self.middle, self.length)
        first, second = np.where(self.is_last, by_length, by_middle)
        self.order = np.lexsort((second, first, self.kind))
        self.place = np.empty_like(self.order)
        self.place[self.order] = np.arange(len(self.order))
        # Where the neighbors of the same document begin and end: beyond them there is surely another one.
        document = self.document[self.order]
        starts = np.flatnonzero(np.diff(document, prepend=document[0] - 1))
        run = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(document)))
        self.before, self.after = starts[run] - 1, np.append(starts, len(document))[run + 1]

    def partners(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each of the spans `rows` the document, start and stop of a random B: int64 [rows] each."""
        # The `WINDOW` nearest spans on either side and the nearest of another document.
        place = self.place[rows]
        near = np.concatenate([np.arange(-WINDOW, 0), np.arange(1, WINDOW + 1)])
        places = np.column_stack([place[:, None] + near, self.before[place], self.after[place]])
        others = self.order[np.clip(places, 0, len(self.order) - 1)]  # [rows, candidates]
        wanted, middle = self.length[rows, None], self.middle[rows, None]
        shift = np.abs(self.middle[others] - middle)
        cost = shift + np.where(self.is_last[rows, None], np.abs(self.length[others] - wanted), 0)
        fits = np.where(
            self.is_last[others],
            self.length[others] <= self.room[rows, None],
            self.size[others] - self.middle[others] > wanted,
        )
        cost = cost + _OTHER_KIND * (self.kind[others] != self.kind[rows, None]) + _DOES_NOT_FIT * ~fits
        cost += rng.random(cost.shape)  # a coin between equals
        cost[self.document[others] == self.document[rows, None]] = np.inf
        chosen = others[np.arange(len(rows)), cost.argmin(axis=1)]
        begin, wanted, size = self.middle[chosen], self.length[rows], self.size[chosen]
        # The second half of a sentence may begin a few tokens earlier or later.
        is_half = self.is_last[chosen] & (self.ends_sentence[chosen] == 0)
        begin = np.where(is_half, np.maximum(size - wanted, self.start[chosen] + 1), begin)
        most = np.where(self.is_last[rows] & self.is_last[chosen], self.room[rows], wanted)
        return self.document[chosen], begin, np.minimum(begin + most, size)
