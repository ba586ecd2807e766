"""Plain text as the words that tagged files are made of, each with its place in the text.

Tagged corpora split punctuation off and leave words whole that only hold some inside: "U.S.", "AT&T", "10:30". So
does this, by rule, in one pass: at white space, then punctuation off both ends, then the English endings 's, 're,
'll, ... and n't. A full stop stays with an abbreviation of single letters. A Chinese or Japanese character is a word
of its own, as in BERT's tokenizer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

Span = tuple[int, int]

_CHUNK = re.compile(r"\S+")
_IDEOGRAPH = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f]")
_INITIALS = re.compile(r"(?:[^\W\d_]\.){2,}")
_TITLES = frozenset("mr mrs ms dr prof st jr sr vs no inc corp co ltd gen col sen rep gov lt sgt".split())  # noqa: SIM905
_ENDING = re.compile(r"(?:n['’]t|['’](?:s|re|ve|ll|d|m))$", re.IGNORECASE)


def split_words(text: str) -> list[Span]:
    """Start and end character of each word of `text`, in order; together they hold all that is not white space."""
    spans: list[Span] = []
    for chunk in _CHUNK.finditer(text):
        start = chunk.start()
        for character in _IDEOGRAPH.finditer(text, chunk.start(), chunk.end()):
            spans += _split(text, start, character.start())
            spans.append(character.span())
            start = character.end()
        spans += _split(text, start, chunk.end())
    return spans


def _split(text: str, start: int, end: int) -> Iterator[Span]:
    """Words of a stretch without white space."""
    while start < end and _is_mark(text[start]):
        yield start, start + 1
        start += 1
    marks: list[Span] = []
    while start < end and _is_mark(text[end - 1]) and not _keeps_stop(text, start, end):
        marks.append((end - 1, end))
        end -= 1
    ending = _ENDING.search(text, start, end)
    if ending and ending.start() > start:
        yield start, ending.start()
        yield ending.span()
    elif start < end:
        yield start, end
    yield from reversed(marks)


def _keeps_stop(text: str, start: int, end: int) -> bool:
    """Whether the last character is a full stop that belongs to the word: "U.S.", "Dr."."""
    if text[end - 1] != ".":
        return False
    return bool(_INITIALS.fullmatch(text, start, end)) or text[start : end - 1].lower() in _TITLES


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def find_word(text: str, word: str) -> list[Span]:
    """Start and end character of each place of `text` where `word` stands as a whole word, in order.

    A word in small letters is found in any case ("bank" finds "Bank"); one with a capital as it is written ("Apple"
    does not find "apple"). What goes on with a letter, a digit or a combining mark is another word; between Chinese
    or Japanese characters nothing marks the end of a word, and every place counts.
    """
    pattern = re.compile(re.escape(word), re.IGNORECASE if word == word.lower() else 0)
    places = (match.span() for match in pattern.finditer(text))
    return [(start, end) for start, end in places if not (_goes_on(text, start) or _goes_on(text, end))]


def _goes_on(text: str, place: int) -> bool:
    """Whether the characters before and at `place` belong to one word."""
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    if unicodedata.category(after)[0] == "M":
        return True
    both = all(unicodedata.category(one)[0] in "LMN" or one == "_" for one in (before, after))
    return both and not _IDEOGRAPH.match(before) and not _IDEOGRAPH.match(after)
