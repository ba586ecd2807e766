"""Checks whether an answer is at its stated character in the context, and finds the nearest match if not."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import NamedTuple

import numpy as np

from ..word_boundaries import whole_words, word_edges

_MAX_COMPARED = 100  # answer characters that are compared: bounds the search time
_MIN_SHARED = 3  # minimum number of characters shared with the answer


class ContextSpan(NamedTuple):
    """A span of a context: its text and its first character."""

    text: str
    start: int


def nearest_match(answer: str, context: str, start: int = 0) -> ContextSpan | None:
    """Returns the span of `context` most similar to `answer`: the same text nearest to `start`, else ignoring case,
    else the words around the longest common substring; None if they share nothing.
    """
    answer = answer.strip()
    if not answer:
        return None
    lower, wanted = _lowered(context), _lowered(answer)
    for text, piece in ((context, answer), (lower, wanted)):
        found = _nearest_occurrence(piece, text, start)
        if found is not None:
            return ContextSpan(context[found : found + len(piece)], found)
    matcher = SequenceMatcher(None, lower, wanted[:_MAX_COMPARED], autojunk=False)
    shared = matcher.find_longest_match()
    if shared.size < min(_MIN_SHARED, len(wanted)):
        return None
    first = max(0, shared.a - shared.b)
    last = min(len(context), max(first + len(wanted), shared.a + shared.size))
    return _whole_words(context, first, last)


def position_error(answer: str, context: str, start: int) -> str | None:
    """Returns why an answer is not at character `start` of its context, or None if it is."""
    if start >= 0 and context.startswith(answer, start):
        return None
    nearest = nearest_match(answer, context, start)
    hint = f"the nearest match is {quoted(nearest.text)} at character {nearest.start}" if nearest else "no similar text"
    if start < 0:
        return f"the answer {quoted(answer)} starts at {start}, before its context; {hint}"
    if start >= len(context):
        length = f"{len(context):,} characters"
        return (
            f"the answer {quoted(answer)} starts at character {start}, beyond the end of its context ({length}); {hint}"
        )
    return f"the answer {quoted(answer)} is not in its context at character {start}; {hint}"


def find_answer(answer: str, context: str) -> tuple[int, str | None]:
    """Returns the first character of an answer without a stated position, and an error (or None).

    Prefers the first occurrence that begins and ends at word boundaries, else the first occurrence.
    """
    start = context.find(answer)
    if start >= 0:
        return _first_whole(answer, context, start), None
    nearest = nearest_match(answer, context)
    hint = f"the nearest match is {quoted(nearest.text)} at character {nearest.start}" if nearest else "no similar text"
    return 0, f"the answer {quoted(answer)} is not in its context; {hint}"


def quoted(text: str, limit: int = 60) -> str:
    """Formats text for a message: quoted, on one line, truncated to `limit` characters."""
    line = " ".join(text.split())
    return f"'{line}'" if len(line) <= limit else f"'{line[: limit - 3]}...'"


def _lowered(text: str) -> str:
    """Lowercases each character separately so that offsets do not change."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)


def _nearest_occurrence(piece: str, text: str, start: int) -> int | None:
    """Returns the occurrence of `piece` in `text` nearest to `start`, or None."""
    start = min(max(start, 0), len(text))
    before, after = text.rfind(piece, 0, start + len(piece)), text.find(piece, start)
    found = [place for place in (before, after) if place >= 0]
    return min(found, key=lambda place: abs(place - start)) if found else None


def _first_whole(answer: str, context: str, start: int) -> int:
    """Returns the first occurrence of `answer` from `start` at word boundaries; `start` if there is none."""
    edges, place = word_edges(context), start
    first, last = len(answer) - len(answer.lstrip()), len(answer.rstrip()) - 1
    while place >= 0 and first <= last:
        if edges[place + first, 0] == place + first and edges[place + last, 1] == place + last + 1:
            return place
        place = context.find(answer, place + 1)
    return start


def _whole_words(context: str, first: int, last: int) -> ContextSpan:
    """Returns the span from `first` to `last` expanded to whole words and stripped of whitespace."""
    start, end = whole_words(word_edges(context), np.array([[first, last]]))[0].tolist()
    return ContextSpan(context[start:end], start)
