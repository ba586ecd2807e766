"""Decodes start and end logits of windows to the best answer spans of each question and a no-answer score.

A span is valid if it is in the context, does not end before it begins, and has at most `max_answer_tokens` tokens; its
score is the sum of its start and end logits (Devlin et al. 2019, section 4.2). The answer consists of the whole words
of the original text that the span overlaps (`text.word_boundaries`), with the best score of all spans over the same
words. The no-answer score is that of the span from [CLS] to [CLS], the minimum over the windows: one window with an
answer is enough. No answer is predicted if this score exceeds the best span by more than a threshold (section 4.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...core.errors import InputError
from ...text.word_boundaries import whole_words, word_edges
from .windows import Windows

MAX_ANSWER_TOKENS, BEST = 30, 20  # as published for SQuAD


@dataclass(frozen=True, slots=True)
class Span:
    """An answer span: `context[start:end] == text`; score: sum of start and end logit; probability: softmax of the
    scores over the listed spans and "no answer".
    """

    text: str
    start: int
    end: int
    score: float
    probability: float


@dataclass(frozen=True, slots=True)
class AnswerCandidates:
    """Candidate answers to one question.

    spans: different spans of the context, best first; no_answer_margin: no-answer score minus the best span score (inf
    if there is no valid span); no_answer_probability: softmax probability of "no answer".
    """

    spans: tuple[Span, ...]
    no_answer_margin: float
    no_answer_probability: float

    def best(self, threshold: float | None = None) -> Span | None:
        """The best span; None if there is none or `no_answer_margin` is above `threshold` (default: no threshold)."""
        if not self.spans or (threshold is not None and self.no_answer_margin > threshold):
            return None
        return self.spans[0]


def find_answers(
    windows: Windows,
    logits: Sequence[np.ndarray],
    *,
    best: int = BEST,
    max_answer_tokens: int = MAX_ANSWER_TOKENS,
    whole: bool = True,
) -> list[AnswerCandidates]:
    """Finds the `best` spans of each question, with `whole` extended to whole words.

    logits: for each window float [tokens, 2], start and end. Spans over the same words, also from overlapping windows,
    count once with their best score; of equal scores the earlier, then the shorter span is first. Raises InputError if
    `best` or `max_answer_tokens` is below 1.
    """
    if best < 1 or max_answer_tokens < 1:
        raise InputError(f"best={best} and max_answer_tokens={max_answer_tokens} must be 1 or more.")
    found: list[dict[tuple[int, int], float]] = [{} for _ in windows.questions]
    nulls = np.full(len(windows.questions), np.inf)
    context, words = "", word_edges("")
    for window, values in enumerate(logits):
        question = int(windows.question[window])
        nulls[question] = min(nulls[question], float(values[0, 0]) + float(values[0, 1]))
        if windows.questions[question].context is not context:
            context = windows.questions[question].context
            words = word_edges(context) if whole else _characters(context)
        for place, score in _window_spans(windows, window, values, words, best, max_answer_tokens):
            if score > found[question].get(place, -np.inf):
                found[question][place] = score
    return [
        _ranked(places, float(null), question.context, best)
        for places, null, question in zip(found, nulls, windows.questions, strict=True)
    ]


def _characters(context: str) -> np.ndarray:
    """Each character as its own word, so that spans stay those of the tokens; as of `word_edges`."""
    places = np.arange(len(context))
    return np.stack([places, places + 1], axis=1)


def span_scores(start: np.ndarray, end: np.ndarray, allowed: np.ndarray, max_answer_tokens: int) -> np.ndarray:
    """Scores of all spans of one window, indexed by start and length - 1: float64 [tokens, lengths].

    start, end: float [tokens], logits; allowed: bool [tokens], where a span may begin or end. Invalid spans have -inf.
    lengths: `max_answer_tokens`, at most the number of tokens.
    """
    tokens = len(start)
    lengths = min(max_answer_tokens, tokens)
    padded = np.full(tokens + lengths, -np.inf)
    padded[:tokens] = np.where(allowed, end, -np.inf)
    ends = np.lib.stride_tricks.sliding_window_view(padded, lengths)[:tokens]  # [tokens, lengths]
    return np.where(allowed, start, -np.inf)[:, None] + ends


def _window_spans(
    windows: Windows, window: int, values: np.ndarray, words: np.ndarray, best: int, max_answer_tokens: int
) -> Iterator[tuple[tuple[int, int], float]]:
    """The best spans of a window as character ranges with scores, at least `best` different ones if there are enough.

    words: int64 [characters, 2], where the word of each character of the context begins and ends.
    """
    spans, first = windows.spans[window], int(windows.first[window])
    if not len(spans):
        return
    own = values[first : first + len(spans)].astype(np.float64)  # [context tokens, 2]
    scores = span_scores(own[:, 0], own[:, 1], spans[:, 1] > spans[:, 0], max_answer_tokens)
    flat = scores.ravel()
    edges = whole_words(words, spans)
    num_valid = int(np.isfinite(flat).sum())
    count, places = min(best, num_valid), {}
    while count:
        # A word can have several tokens, so different token spans can be the same answer.
        cutoff = np.partition(flat, len(flat) - count)[len(flat) - count]
        chosen = np.flatnonzero(flat >= cutoff)  # all that tie with the last one
        places = _as_characters(chosen, flat[chosen], edges, scores.shape[1], best)
        if len(places) >= best or len(chosen) >= num_valid:
            break
        count = min(2 * count, num_valid)
    yield from places.items()


def _as_characters(
    chosen: np.ndarray, scores: np.ndarray, edges: np.ndarray, lengths: int, best: int
) -> dict[tuple[int, int], float]:
    """The `best` different character ranges with their best scores; of equal scores earlier and shorter ones first."""
    starts = edges[chosen // lengths, 0]
    ends = edges[chosen // lengths + chosen % lengths, 1]
    order = np.lexsort((ends, starts, -scores))
    order = order[starts[order] < ends[order]]
    pairs = np.stack([starts[order], ends[order]], axis=1)  # [spans, 2]
    first = np.sort(np.unique(pairs, axis=0, return_index=True)[1])[:best]
    values = scores[order][first].tolist()
    return {(start, end): score for (start, end), score in zip(pairs[first].tolist(), values, strict=True)}


def _ranked(places: dict[tuple[int, int], float], null: float, context: str, best: int) -> AnswerCandidates:
    """Sorts the best spans and adds probabilities."""
    order = sorted(places, key=lambda place: (-places[place], place))[:best]
    scores = np.array([null, *(places[place] for place in order)], dtype=np.float64)
    finite = np.isfinite(scores)
    shares = np.where(finite, np.exp(scores - scores[finite].max()), 0.0) if finite.any() else np.zeros(len(scores))
    shares = shares / max(shares.sum(), np.finfo(np.float64).tiny)
    spans = tuple(
        Span(context[start:end], start, end, places[start, end], float(share))
        for (start, end), share in zip(order, shares[1:], strict=True)
    )
    return AnswerCandidates(spans, null - spans[0].score if spans else float("inf"), float(shares[0]))
