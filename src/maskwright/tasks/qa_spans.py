"""From the logits of windows to answers: the best valid spans of each question, and how likely it has none.

A span is valid when it begins and ends in the context, does not end before it begins, and is not longer than
`max_answer_tokens`; its score is the sum of its start and end logits (Devlin et al. 2018, section 4.2). The score of
"no answer" is that of the span from [CLS] to [CLS], the smallest over the windows: one window that holds an answer is
enough. A question is refused when no answer scores higher than the best span by more than a threshold (section 4.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.errors import InputError
from .qa_windows import Windows

MAX_ANSWER_TOKENS, BEST = 30, 20  # as published for SQuAD


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a context: `context[start:end] == text`; score: start and end logit together; probability: the
    softmax of the scores over the spans of the list and "no answer".
    """

    text: str
    start: int
    end: int
    score: float
    probability: float


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for one question.

    spans: different pieces of the context, best first; no_answer_margin: how many logits "no answer" is above the best
    span (inf where there is no valid span); no_answer_probability: its share of the softmax.
    """

    spans: tuple[Span, ...]
    no_answer_margin: float
    no_answer_probability: float

    def best(self, threshold: float | None = None) -> Span | None:
        """The best span; None where there is none, or where `no_answer_margin` is above `threshold` (None: never)."""
        if not self.spans or (threshold is not None and self.no_answer_margin > threshold):
            return None
        return self.spans[0]


def find_answers(
    windows: Windows,
    logits: Sequence[np.ndarray],
    *,
    best: int = BEST,
    max_answer_tokens: int = MAX_ANSWER_TOKENS,
) -> list[Found]:
    """The `best` spans of every question.

    logits: for each window float [tokens, 2], start and end. Spans of overlapping windows that are the same characters
    count once, with their best score; equal scores keep the earlier, then the shorter span. Raises InputError when
    `best` or `max_answer_tokens` is below 1.
    """
    if best < 1 or max_answer_tokens < 1:
        raise InputError(f"best={best} and max_answer_tokens={max_answer_tokens} must be 1 or more.")
    found: list[dict[tuple[int, int], float]] = [{} for _ in windows.questions]
    nulls = np.full(len(windows.questions), np.inf)
    for window, values in enumerate(logits):
        question = int(windows.question[window])
        nulls[question] = min(nulls[question], float(values[0, 0]) + float(values[0, 1]))
        context = windows.questions[question].context
        for place, score in _window_spans(windows, window, values, context, best, max_answer_tokens):
            if score > found[question].get(place, -np.inf):
                found[question][place] = score
    return [
        _ranked(places, float(null), question.context, best)
        for places, null, question in zip(found, nulls, windows.questions, strict=True)
    ]


def span_scores(start: np.ndarray, end: np.ndarray, allowed: np.ndarray, max_answer_tokens: int) -> np.ndarray:
    """Scores of all spans of one window by their start and their length less 1: float64 [tokens, lengths].

    start, end: float [tokens], logits; allowed: bool [tokens], where a span may begin or end. Spans that are not valid
    have -inf. lengths: as many as `max_answer_tokens`, or tokens if there are fewer.
    """
    tokens = len(start)
    lengths = min(max_answer_tokens, tokens)
    padded = np.full(tokens + lengths, -np.inf)
    padded[:tokens] = np.where(allowed, end, -np.inf)
    ends = np.lib.stride_tricks.sliding_window_view(padded, lengths)[:tokens]  # [tokens, lengths]
    return np.where(allowed, start, -np.inf)[:, None] + ends


def _window_spans(
    windows: Windows, window: int, values: np.ndarray, context: str, best: int, max_answer_tokens: int
) -> Iterator[tuple[tuple[int, int], float]]:
    """The best spans of a window as characters, at least `best` different ones where it has so many."""
    spans, first = windows.spans[window], int(windows.first[window])
    if not len(spans):
        return
    own = values[first : first + len(spans)].astype(np.float64)  # [context tokens, 2]
    scores = span_scores(own[:, 0], own[:, 1], spans[:, 1] > spans[:, 0], max_answer_tokens)
    flat = scores.ravel()
    edges = _edges(spans, context)
    num_valid = int(np.isfinite(flat).sum())
    count, places = min(best, num_valid), {}
    while count:
        # Several tokens may stand for one character, so that different spans of tokens are one piece of text.
        cutoff = np.partition(flat, len(flat) - count)[len(flat) - count]
        chosen = np.flatnonzero(flat >= cutoff)  # all that tie with the last one
        places = _as_characters(chosen, flat[chosen], edges, scores.shape[1], best)
        if len(places) >= best or len(chosen) >= num_valid:
            break
        count = min(2 * count, num_valid)
    yield from places.items()


def _edges(spans: np.ndarray, context: str) -> np.ndarray:
    """Where a span that begins, or ends, at each token does so without white space: int64 [tokens, 2]."""
    edges = spans.astype(np.int64)
    for token, (start, end) in enumerate(spans.tolist()):
        while start < len(context) and context[start].isspace():
            start += 1  # noqa: PLW2901
        while end > 0 and context[end - 1].isspace():
            end -= 1  # noqa: PLW2901
        edges[token] = start, end
    return edges


def _as_characters(
    chosen: np.ndarray, scores: np.ndarray, edges: np.ndarray, lengths: int, best: int
) -> dict[tuple[int, int], float]:
    """The `best` different pieces of the context with their best scores, earlier and shorter ones first where equal."""
    starts = edges[chosen // lengths, 0]
    ends = edges[chosen // lengths + chosen % lengths, 1]
    order = np.lexsort((ends, starts, -scores))
    order = order[starts[order] < ends[order]]
    pairs = np.stack([starts[order], ends[order]], axis=1)  # [spans, 2]
    first = np.sort(np.unique(pairs, axis=0, return_index=True)[1])[:best]
    values = scores[order][first].tolist()
    return {(start, end): score for (start, end), score in zip(pairs[first].tolist(), values, strict=True)}


def _ranked(places: dict[tuple[int, int], float], null: float, context: str, best: int) -> Found:
    """The best of them in order, with probabilities."""
    order = sorted(places, key=lambda place: (-places[place], place))[:best]
    scores = np.array([null, *(places[place] for place in order)], dtype=np.float64)
    finite = np.isfinite(scores)
    shares = np.where(finite, np.exp(scores - scores[finite].max()), 0.0) if finite.any() else np.zeros(len(scores))
    shares = shares / max(shares.sum(), np.finfo(np.float64).tiny)
    spans = tuple(
        Span(context[start:end], start, end, places[start, end], float(share))
        for (start, end), share in zip(order, shares[1:], strict=True)
    )
    return Found(spans, null - spans[0].score if spans else float("inf"), float(shares[0]))
