"""Whether an answer stands where it is said to stand in its context; and if not, where the nearest match is."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import NamedTuple

_SEARCHED = 100  # characters of an answer that are compared: bounds the search in a context of any length
_LEAST = 3  # characters that a match must share with the answer


class Place(NamedTuple):
    """A piece of a context: its text and its first character."""

    text: str
    start: int


def nearest_match(answer: str, context: str, start: int = 0) -> Place | None:
    """The piece of `context` most like `answer`: the same text nearest to `start`, else the same but for upper and
    lower case, else the words around the longest piece of text that both share; None where they share nothing.
    """
    answer = answer.strip()
    if not answer:
        return None
    lower, wanted = _lowered(context), _lowered(answer)
    for text, piece in ((context, answer), (lower, wanted)):
        found = _nearest_occurrence(piece, text, start)
        if found is not None:
            return Place(context[found : found + len(piece)], found)
    matcher = SequenceMatcher(None, lower, wanted[:_SEARCHED], autojunk=False)
    shared = matcher.find_longest_match()
    if shared.size < min(_LEAST, len(wanted)):
        return None
    first = max(0, shared.a - shared.b)
    last = min(len(context), max(first + len(wanted), shared.a + shared.size))
    return _whole_words(context, first, last)


def place_fault(answer: str, context: str, start: int) -> str | None:
    """What is wrong with an answer that is to begin at character `start` of its context, or None."""
    if start >= 0 and context.startswith(answer, start):
        return None
    nearest = nearest_match(answer, context, start)
    hint = (
        f"the nearest match is {quoted(nearest.text)} at character {nearest.start}" if nearest else "nothing is like it"
    )
    if start < 0:
        return f"the answer {quoted(answer)} starts at {start}, before its context; {hint}"
    if start >= len(context):
        length = f"{len(context):,} characters"
        return (
            f"the answer {quoted(answer)} starts at character {start}, beyond the end of its context ({length}); {hint}"
        )
    return f"the answer {quoted(answer)} is not in its context at character {start}; {hint}"


def find_place(answer: str, context: str) -> tuple[int, str | None]:
    """The first character of an answer that comes without one, and what is wrong (or None)."""
    start = context.find(answer)
    if start >= 0:
        return start, None
    nearest = nearest_match(answer, context)
    hint = (
        f"the nearest match is {quoted(nearest.text)} at character {nearest.start}" if nearest else "nothing is like it"
    )
    return 0, f"the answer {quoted(answer)} is not in its context; {hint}"


def quoted(text: str, limit: int = 60) -> str:
    """Text for a message: in quotes, on one line, cut at `limit` characters."""
    line = " ".join(text.split())
    return f"'{line}'" if len(line) <= limit else f"'{line[: limit - 3]}...'"


def _lowered(text: str) -> str:
    """Lower case, character for character, so that places stay."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)


def _nearest_occurrence(piece: str, text: str, start: int) -> int | None:
    """Where `piece` stands in `text`, as near to `start` as it does; None where it does not."""
    start = min(max(start, 0), len(text))
    before, after = text.rfind(piece, 0, start + len(piece)), text.find(piece, start)
    found = [place for place in (before, after) if place >= 0]
    return min(found, key=lambda place: abs(place - start)) if found else None


def _whole_words(context: str, first: int, last: int) -> Place:
    """The piece from `first` to `last`, grown to whole words and without spaces at its ends."""
    while first > 0 and context[first - 1].isalnum() and context[first].isalnum():
        first -= 1
    while last < len(context) and context[last - 1].isalnum() and context[last].isalnum():
        last += 1
    piece = context[first:last]
    return Place(piece.strip(), first + len(piece) - len(piece.lstrip()))
