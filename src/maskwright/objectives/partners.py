"""The random B of next sentence prediction: what follows another A, in another document.

If a random B were drawn in any other way than a true one, its length, its place in its document or the way it begins
and ends would reveal the label. So it is drawn from the text that follows the A of other examples, and there it is one
of the most similar to the text that it replaces: both begin a sentence or neither does, both end their document or
neither does, and they are as long (if they end their document) or begin as far into it (if not; then they are truncated
to the same length).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
        others = self._nearby(rows)  # [rows, candidates]
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
        return self._spans(rows, others[np.arange(len(rows)), cost.argmin(axis=1)])

    def _nearby(self, rows: np.ndarray) -> np.ndarray:
        """The `WINDOW` nearest spans on either side and the nearest of another document: int64 [rows, candidates]."""
        place = self.place[rows]
        near = np.concatenate([np.arange(-WINDOW, 0), np.arange(1, WINDOW + 1)])
        places = np.column_stack([place[:, None] + near, self.before[place], self.after[place]])
        spans: np.ndarray = self.order[np.clip(places, 0, len(self.order) - 1)]
        return spans

    def _spans(self, rows: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What each of the spans `rows` takes of the span chosen for it: document, start and stop."""
        begin, wanted, size = self.middle[chosen], self.length[rows], self.size[chosen]
        # The second half of a sentence may begin a few tokens earlier or later.
        is_half = self.is_last[chosen] & (self.ends_sentence[chosen] == 0)
        begin = np.where(is_half, np.maximum(size - wanted, self.start[chosen] + 1), begin)
        most = np.where(self.is_last[rows] & self.is_last[chosen], self.room[rows], wanted)
        return self.document[chosen], begin, np.minimum(begin + most, size)
