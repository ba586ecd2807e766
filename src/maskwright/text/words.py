"""Rule-based word segmentation in the style of tagged corpora, with character offsets.

Tagged corpora split off punctuation but keep words with internal punctuation: "U.S.", "AT&T", "10:30". The same rules
apply here in one pass: split at whitespace, then punctuation at both ends, then the English endings 's, 're, 'll, ...
and n't. A period stays with an abbreviation of single letters. A Chinese or Japanese character is a separate word, as
in BERT's tokenizer.
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
    """Returns start and end character of each word of `text`, in order, covering everything but whitespace."""
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
    """Yields the words of a span without whitespace."""
    while start < end and _is_punctuation(text[start]):
        yield start, start + 1
        start += 1
    marks: list[Span] = []
    while start < end and _is_punctuation(text[end - 1]) and not _keeps_period(text, start, end):
        marks.append((end - 1, end))
        end -= 1
    ending = _ENDING.search(text, start, end)
    if ending and ending.start() > start:
        yield start, ending.start()
        yield ending.span()
    elif start < end:
        yield start, end
    yield from reversed(marks)


def _keeps_period(text: str, start: int, end: int) -> bool:
    """Whether the last character is a period that belongs to the word: "U.S.", "Dr."."""
    if text[end - 1] != ".":
        return False
    return bool(_INITIALS.fullmatch(text, start, end)) or text[start : end - 1].lower() in _TITLES


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def find_word(text: str, word: str) -> list[Span]:
    """Returns start and end character of each whole-word occurrence of `word` in `text`, in order.

    A lowercase word matches any case ("bank" finds "Bank"); a word with uppercase letters matches exactly ("Apple" does
    not find "apple"). A match may not be followed or preceded by a letter, a digit or a combining mark, except between
    Chinese or Japanese characters, where every occurrence counts.
    """
    pattern = re.compile(re.escape(word), re.IGNORECASE if word == word.lower() else 0)
    places = (match.span() for match in pattern.finditer(text))
    return [(start, end) for start, end in places if not (_continues_word(text, start) or _continues_word(text, end))]


def _continues_word(text: str, place: int) -> bool:
    """Whether the characters before and at `place` belong to the same word."""
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    if unicodedata.category(after)[0] == "M":
        return True
    both = all(unicodedata.category(one)[0] in "LMN" or one == "_" for one in (before, after))
    return both and not _IDEOGRAPH.match(before) and not _IDEOGRAPH.match(after)
