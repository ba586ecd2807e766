"""From documents to training examples: which span of which document becomes segment A, and which segment B.

Examples are consecutive text of exactly the wanted length, as far as the document goes: a sentence that does not fit is
cut there and goes on in the next example. So nearly all sequences of a batch have the same length, which is what
attention over runs is fast on, no position is wasted, and every token of an epoch is seen once. For next sentence
prediction (Devlin et al. 2019, section 3.1, task 2) A ends where a sentence ends, and a coin decides whether B is the
text that follows or text of another document; in the second case what followed A is used by the next example. For
sentence order (Lan et al. 2020, section 3.1) B always follows A, and a coin decides whether the two change places.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np


class Example(NamedTuple):
    """Token spans inside documents. B is empty (start == stop) for a single segment.

    is_random: B is from another document; is_swapped: B stands before A in the text.
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
    """Token offsets of the sentences of a document, [0, ..., tokens]; empty sentences are left out."""
    return [0, *np.cumsum(sentence_lengths[sentence_lengths > 0]).tolist()]


class TargetLengths:
    """The length that each example has: mostly `max_tokens`, with probability `short_share` a random shorter one.

    Short examples keep the positions of fine-tuning's short inputs in training (the published short_seq_prob, 0.1).
    """

    def __init__(self, max_tokens: int, short_share: float, rng: np.random.Generator) -> None:
        self.max_tokens, self.short_share, self.rng = max_tokens, short_share, rng

    def next(self) -> int:
        """Tokens that the next example should have."""
        if self.rng.random() < self.short_share:
            return int(self.rng.integers(2, self.max_tokens + 1))
        return self.max_tokens


def plan_singles(
    bounds: dict[int, list[int]], max_tokens: int, short_share: float, rng: np.random.Generator
) -> list[Example]:
    """Examples of one segment: each document cut into consecutive spans of at most `max_tokens` tokens.

    bounds: offsets of the sentences by document, from `sentence_bounds`.
    """
    targets = TargetLengths(max_tokens, short_share, rng)
    examples = []
    for document, edges in bounds.items():
        start, end = 0, edges[-1]
        while start < end:
            stop = min(start + targets.next(), end)
            examples.append(Example(document, start, stop))
            start = stop
    return examples


def plan_pairs(
    bounds: dict[int, list[int]], max_tokens: int, short_share: float, rng: np.random.Generator
) -> list[Example]:
    """Examples of two segments, half with the text that follows, half with text of another document.

    bounds: offsets of the sentences by document, from `sentence_bounds`; at least two documents. Returns the examples
    in document order; A and B have `max_tokens` tokens at most together.
    """
    targets = TargetLengths(max_tokens, short_share, rng)
    documents = list(bounds)
    examples = []
    for place, (document, edges) in enumerate(bounds.items()):
        start, end = 0, edges[-1]
        while start < end:
            stop = min(start + targets.next(), end)
            middle, ends_sentence = _split(edges, start, stop, rng)
            if middle < stop and rng.random() < 0.5:
                examples.append(Example(document, start, middle, document, middle, stop))
                start = stop
                continue
            other = documents[(place + int(rng.integers(1, len(documents)))) % len(documents)]
            # As long as the true partner would be: length must not tell them apart.
            b_start, b_stop = _random_span(bounds[other], max(stop - middle, 1), rng)
            examples.append(Example(document, start, middle, other, b_start, b_stop, True))
            # What followed A was not used: it begins the next example (a halved sentence has been seen enough).
            start = middle if ends_sentence else stop
    return examples


def plan_ordered(
    bounds: dict[int, list[int]], max_tokens: int, short_share: float, rng: np.random.Generator
) -> list[Example]:
    """Examples of two neighbouring segments of a document, half of them swapped.

    bounds: offsets of the sentences by document, from `sentence_bounds`. Each document is cut into consecutive spans of
    at most `max_tokens` tokens, and each span into two segments; one token alone has no order and is left out.
    """
    targets = TargetLengths(max_tokens, short_share, rng)
    examples = []
    for document, edges in bounds.items():
        start, end = 0, edges[-1]
        while end - start >= 2:
            stop = min(start + targets.next(), end)
            if end - stop == 1 and stop - start > 2:
                stop -= 1  # so that the last span has two tokens
            middle, _ = _split(edges, start, stop, rng)
            first, second = (document, start, middle), (document, middle, stop)
            is_swapped = bool(rng.random() < 0.5)
            pair = (*second, *first) if is_swapped else (*first, *second)
            examples.append(Example(*pair, is_swapped=is_swapped))
            start = stop
    return examples


def _split(edges: list[int], start: int, stop: int, rng: np.random.Generator) -> tuple[int, bool]:
    """Where A ends between `start` and `stop`, and whether a sentence ends there.

    A random sentence end; the middle where one sentence fills the span (a span of one token is not split).
    """
    first, last = bisect_right(edges, start), bisect_left(edges, stop)
    if first < last:
        return edges[int(rng.integers(first, last))], True
    return (start + stop + 1) // 2, False


def _random_span(edges: list[int], wanted: int, rng: np.random.Generator) -> tuple[int, int]:
    """`wanted` tokens from the beginning of a random sentence; fewer where the document is shorter."""
    starts = bisect_right(edges, edges[-1] - wanted)
    start = edges[int(rng.integers(starts))] if starts else 0
    return start, min(start + wanted, edges[-1])
