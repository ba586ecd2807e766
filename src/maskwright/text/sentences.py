"""Rule-based sentence segmentation in one pass.

A line break always ends a sentence, and so do the full stops of Chinese and Japanese. Otherwise `.`, `!`, `?` and `…`
end a sentence if whitespace and a possible sentence start follow; a period after an abbreviation, an initial or a list
number does not. Every rule inspects a bounded span of text, so time is linear in text length.
"""

from __future__ import annotations

import re
import unicodedata

_CLOSERS = "\"'”’»›)\\]}」』）】》"
_OPENERS = frozenset("\"'“‘«‹([{「『（【《¿¡-–—*•")
# Consecutive character classes, each unbounded, none nested: the scan cannot backtrack.
_BREAK = re.compile(f"[.!?…‽؟।॥]+[{_CLOSERS}]*|[。！？｡．]+[{_CLOSERS}]*|[\r\n\u2028\u2029]+")
_SPACE = re.compile(r"\s*")
_ALWAYS_ENDS = frozenset("。！？｡．\r\n\u2028\u2029")
_LOOK_BACK = 24


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Abbreviations before a name or a list: never the end of a sentence.
_GOES_ON = _words(
    "mr mrs ms mx dr prof rev hon gen col maj capt cmdr lt sgt cpl pvt adm gov sen rep pres supt insp messrs "
    "mme mlle st mt ft fr br dept univ assn fig figs eq eqs secs chap ref refs cf viz vs e.g i.e eg ie "
    "approx ca circa resp incl excl eds trans repr illus hr herr frau bzw z.b d.h u.a"
)
# Abbreviations before a number; before anything else they are words, or end a sentence.
_NEEDS_NUMBER = _words(
    "no nos nr art ch sec vol vols pp pg p v ed est op jan feb mar apr jun jul aug sep sept oct nov dec"
)
# May end a sentence; the next word decides.
_MAY_END = _words("etc al inc ltd co corp bros jr sr esq ph.d m.d b.a m.a b.sc m.sc a.m p.m u.s u.k u.n e.u")
# Words that start a sentence far more often than they follow an initial or "Inc.".
_STARTERS = _words(
    "the a an this that these those it he she they we i you his her its their our my there here in on at by "
    "for from with as if when while where what who why how after before during since although though however "
    "but and or so then thus not all some many most each every another both such"
)


def split_sentences(text: str) -> list[str]:
    """Returns the sentences of `text` in order, stripped of whitespace."""
    return [text[start:end] for start, end in sentence_spans(text)]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Returns start and end of each sentence in `text`: disjoint, in order, covering everything but whitespace."""
    spans: list[tuple[int, int]] = []
    start = 0
    for mark in _BREAK.finditer(text):
        if mark.start() < start:
            continue
        if _ends_sentence(text, start, mark):
            _add_span(spans, text, start, mark.end())
            start = mark.end()
    _add_span(spans, text, start, len(text))
    return spans


def _add_span(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    stripped = piece.strip()
    if stripped:
        begin = start + len(piece) - len(piece.lstrip())
        spans.append((begin, begin + len(stripped)))


def _ends_sentence(text: str, start: int, mark: re.Match[str]) -> bool:
    first, end = text[mark.start()], mark.end()
    if first in _ALWAYS_ENDS:
        return True
    following = _skip_space(text, end)
    if following == len(text):
        return True
    if following == end or not _may_begin(text[following]):  # 3.14, example.org; "Really?" she said
        return False
    is_one_full_stop = first == "." and text[mark.start() : mark.start() + 2] != ".."
    return not is_one_full_stop or _full_stop_ends(text, start, mark.start(), following)


def _skip_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _may_begin(character: str) -> bool:
    """Whether a sentence may begin with it: uppercase and caseless letters, digits, opening marks, symbols, emoji."""
    if character.islower():
        return False
    return character.isalnum() or character in _OPENERS or unicodedata.category(character)[0] == "S"


def _full_stop_ends(text: str, start: int, stop: int, following: int) -> bool:
    """Decide on one period at `stop` from the word before it and the word at `following`."""
    before = text[max(start, stop - _LOOK_BACK) : stop]
    words = before.split()
    word = words[-1].lstrip("\"'“‘«([{") if words and not before[-1].isspace() else ""
    lowered = word.lower()
    next_word = _word_at(text, following)
    if lowered in _GOES_ON:
        return False
    if lowered in _NEEDS_NUMBER:
        return not next_word[:1].isdigit()
    if lowered in _MAY_END or _is_initials(word):
        return next_word.lower() in _STARTERS
    is_list_number = word.isdigit() and len(word) <= 3 and not text[start : stop - len(word)].strip()
    return not is_list_number


def _is_initials(word: str) -> bool:
    """`J`, `J.R`, `U.S.A`: uppercase letters separated by periods."""
    parts = word.split(".")
    return all(len(part) == 1 and part.isupper() for part in parts) and word != "I"


def _word_at(text: str, position: int) -> str:
    stretch = text[position : position + _LOOK_BACK].split(None, 1)[0].lstrip("\"'“‘«([{")
    for index, character in enumerate(stretch):
        if not (character.isalnum() or character in "'’-"):
            return stretch[:index]
    return stretch
