"""From documents to training examples: which span of which document becomes segment A, and which segment B.

A document is a row of pieces: its sentences, with those longer than half an example cut into parts, so that every
text is used and nothing is truncated. Examples are consecutive pieces up to the wanted length. For next sentence
prediction (Devlin et al. 2019, section 3.1, task 2) a coin decides whether B is the text that follows A or a span of
another document; in the second case the text that followed A is used by the next example.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Example(NamedTuple):
    """Token spans inside documents. B is empty (start == stop) for a single segment."""

    a_document: int
    a_start: int
    a_stop: int
    b_document: int = 0
    b_start: int = 0
    b_stop: int = 0
    is_random: bool = False


def piece_bounds(sentence_lengths: list[int], limit: int) -> list[int]:
    """Token offsets of the pieces of a document, [0, ..., tokens]; no piece is longer than `limit`."""
    bounds = [0]
    for length in sentence_lengths:
        start = bounds[-1]
        parts = -(-length // limit)
        bounds.extend(start + length * (part + 1) // parts for part in range(parts))
    return bounds


class TargetLengths:
    """The length that each example aims at: mostly `max_tokens`, with probability `short_share` a random shorter one.

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
    """Examples of one segment: consecutive pieces of a document, at most `max_tokens` tokens."""
    targets = TargetLengths(max_tokens, short_share, rng)
    examples = []
    for document, edges in bounds.items():
        piece, last = 0, len(edges) - 1
        while piece < last:
            end = _fill(edges, piece, targets.next(), max_tokens, at_least=1)
            examples.append(Example(document, edges[piece], edges[end]))
            piece = end
    return examples


def plan_pairs(
    bounds: dict[int, list[int]], max_tokens: int, short_share: float, rng: np.random.Generator
) -> list[Example]:
    """Examples of two segments, half with the text that follows, half with text of another document.

    bounds: piece offsets by document, from `piece_bounds` with a limit of at most `max_tokens // 2`; at least two
    documents. Returns the examples in document order; A and B have `max_tokens` tokens at most together.
    """
    targets = TargetLengths(max_tokens, short_share, rng)
    documents = list(bounds)
    examples = []
    for place, (document, edges) in enumerate(bounds.items()):
        piece, last = 0, len(edges) - 1
        while piece < last:
            target = targets.next()
            end = _fill(edges, piece, target, max_tokens, at_least=2)
            split = int(rng.integers(piece + 1, end)) if end - piece > 1 else end
            start, middle, stop = edges[piece], edges[split], edges[end]
            if split == end:  # one piece is left: its halves are the pair
                middle = (start + stop + 1) // 2
            if middle < stop and rng.random() < 0.5:
                examples.append(Example(document, start, middle, document, middle, stop))
                piece = end
                continue
            room = max_tokens - (middle - start)
            wanted = max(target - (middle - start), 1)
            other = documents[(place + int(rng.integers(1, len(documents)))) % len(documents)]
            b_start, b_stop = _random_span(bounds[other], wanted, room, rng)
            examples.append(Example(document, start, middle, other, b_start, b_stop, True))
            # What followed A was not used: it begins the next example (a halved piece has been seen enough).
            piece = split
    return examples


def _random_span(edges: list[int], wanted: int, room: int, rng: np.random.Generator) -> tuple[int, int]:
    """Consecutive pieces from a random place: about `wanted` tokens, at most `room`."""
    piece = int(rng.integers(len(edges) - 1))
    end = _fill(edges, piece, wanted, room, at_least=1)
    return edges[piece], min(edges[end], edges[piece] + room)


def _fill(edges: list[int], piece: int, target: int, limit: int, at_least: int) -> int:
    """The piece after the last one of an example that begins at `piece`.

    Takes pieces until `target` tokens are reached, `at_least` so many, and stops before `limit` is passed (the first
    piece is always taken).
    """
    start, end, last = edges[piece], piece + 1, len(edges) - 1
    while end < last and edges[end + 1] - start <= limit:
        if edges[end] - start >= target and end - piece >= at_least:
            break
        end += 1
    return end
