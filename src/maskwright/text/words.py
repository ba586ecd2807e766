"""Words, their boundaries, and sentences of a text, by rules."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.errors import InputError

# -- Rule-based sentence segmentation in one pass --------------------------------------------------------------------
#
# A line break always ends a sentence, and so do the full stops of Chinese and Japanese. Otherwise `.`, `!`, `?` and `…`
# end a sentence if whitespace and a possible sentence start follow; a period after an abbreviation, an initial or a
# list number does not. Every rule inspects a bounded span of text, so time is linear in text length.


_CLOSERS = "\"'”’»›)\\]}」』）】》"
_OPENERS = frozenset("\"'“‘«‹([{「『（【《¿¡-–—*•")
# Consecutive character classes, each unbounded, none nested: the scan cannot backtrack.
_BREAK = re.compile(f"[.!?…‽؟।॥]+[{_CLOSERS}]*|[。！？｡．]+[{_CLOSERS}]*|[\r\n\u2028\u2029]+")
_SPACES = re.compile(r"\s*")
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
    space = _SPACES.match(text, position)
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


# -- Rule-based word segmentation in the style of tagged corpora, with character offsets -----------------------------
#
# Tagged corpora split off punctuation but keep words with internal punctuation: "U.S.", "AT&T", "10:30". The same rules
# apply here in one pass: split at whitespace, then punctuation at both ends, then the English endings 's, 're, 'll, ...
# and n't. A period stays with an abbreviation of single letters. A Chinese or Japanese character is a separate word, as
# in BERT's tokenizer. Variation selectors, joiners and combining marks belong to the character before them and are
# never words by themselves. Other ways to find words are in `segmenters`.


Span = tuple[int, int]

_CHUNK = re.compile(r"\S+")
_IDEOGRAPH = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f]")
_INITIALS = re.compile(r"(?:[^\W\d_]\.){2,}")
_TITLES = frozenset("mr mrs ms dr prof st jr sr vs no inc corp co ltd gen col sen rep gov lt sgt".split())  # noqa: SIM905
_ZERO_WIDTH_JOINER = "\u200d"
_SKIN_TONES = frozenset("\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
_FLAG_LETTERS = frozenset(map(chr, range(0x1F1E6, 0x1F200)))  # two make a flag
_ENDING = re.compile(r"(?:n['’]t|['’](?:s|re|ve|ll|d|m))$", re.IGNORECASE)


def split_words(text: str) -> list[Span]:
    """Returns start and end character of each word of `text`, in order, covering all visible characters."""
    spans: list[Span] = []
    for chunk in _CHUNK.finditer(text):
        start = chunk.start()
        for character in _IDEOGRAPH.finditer(text, chunk.start(), chunk.end()):
            spans += _split(text, start, character.start())
            start = character_end(text, character.start(), chunk.end())
            spans.append((character.start(), start))
        spans += _split(text, start, chunk.end())
    return spans if text.isascii() else [span for span in spans if is_visible(text[slice(*span)])]


def _split(text: str, start: int, end: int) -> Iterator[Span]:
    """Yields the words of a span without whitespace."""
    while start < end and _is_punctuation(text[start]):
        stop = character_end(text, start, end)
        yield start, stop
        start = stop
    marks: list[Span] = []
    while start < end and not _keeps_period(text, start, end):
        last = _character_start(text, start, end)
        if not _is_punctuation(text[last]):
            break
        marks.append((last, end))
        end = last
    ending = _ENDING.search(text, start, end)
    if ending and ending.start() > start:
        yield start, ending.start()
        yield ending.span()
    elif start < end:
        yield start, end
    yield from reversed(marks)


def character_end(text: str, start: int, end: int) -> int:
    """Returns the end of the character, as readers see it, that begins at `start`: with its marks, or a whole emoji."""
    place = start + (2 if text[start] in _FLAG_LETTERS and text[start + 1 : start + 2] in _FLAG_LETTERS else 1)
    while place < end and _extends(text[place]):
        joined = text[place + 1 : end][:1] if text[place] == _ZERO_WIDTH_JOINER else ""
        place += 2 if joined and _is_punctuation(joined) else 1
    return place


def _character_start(text: str, start: int, end: int) -> int:
    """Returns the start of the last character, as readers see it, of a span."""
    place = end - 1
    while place > start and (_extends(text[place]) or text[place - 1] == _ZERO_WIDTH_JOINER):
        place -= 1
    return place - (place > start and text[place] in _FLAG_LETTERS and text[place - 1] in _FLAG_LETTERS)


def _extends(character: str) -> bool:
    """Whether a character belongs to the one before it: marks, variation selectors, joiners, skin tones, tags."""
    return character in _SKIN_TONES or unicodedata.category(character) in ("Mn", "Me", "Mc", "Cf")


def is_visible(word: str) -> bool:
    """Whether a word has more than marks, variation selectors, joiners and other characters without a shape."""
    return word.isascii() or any(unicodedata.category(one) not in ("Mn", "Me", "Cf") for one in word)


def _keeps_period(text: str, start: int, end: int) -> bool:
    """Whether the last character is a period that belongs to the word: "U.S.", "Dr."."""
    if text[end - 1] != ".":
        return False
    return bool(_INITIALS.fullmatch(text, start, end)) or text[start : end - 1].lower() in _TITLES


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


# -- Sentences of words, with their tags -------------------------------------------------------------------------------

MISSING = ""  # tag of a word without annotation
Segment = Callable[[str], list[Span]]


@dataclass(frozen=True)
class Sentence:
    """Words with their tags, or untagged (None).

    spans: start and end character of each word in `text`; line, file: where it begins; lines: line of each word in
    columns, () if all are on one line; id, document: names of the sentence and its document, None if the file has
    none. `label` is the list of tags, as for rows of any task; the tag of a word without annotation is MISSING.
    """

    words: Sequence[str]
    tags: Sequence[str] | None
    text: str
    spans: Sequence[Span]
    line: int
    file: str
    lines: Sequence[int] = field(default=(), repr=False)
    id: str | None = None
    document: str | None = None
    text_pair: None = None

    @classmethod
    def of_words(
        cls, words: Sequence[str], tags: Sequence[str] | None, line: int, file: str, lines: Sequence[int] = ()
    ) -> Sentence:
        """Creates a sentence from words, joined with spaces."""
        spans, start = [], 0
        for word in words:
            spans.append((start, start + len(word)))
            start += len(word) + 1
        return cls(tuple(words), None if tags is None else tuple(tags), " ".join(words), spans, line, file, lines)

    @classmethod
    def of_text(cls, text: str, line: int, file: str, segment: Segment = split_words) -> Sentence:
        """Creates an untagged sentence from text. segment: returns the characters of its words."""
        spans = segment(text)
        return cls(tuple(text[start:end] for start, end in spans), None, text, spans, line, file)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def label(self) -> list[str] | None:
        """The tags."""
        return None if self.tags is None else list(self.tags)

    def line_of(self, word: int) -> int:
        """Returns the physical line of a word."""
        return self.lines[word] if self.lines else self.line


def as_sentences(rows: Iterable[Any], segment: Segment = split_words) -> list[Sentence]:
    """Converts rows of texts or sentences to sentences; see `Sentence.of_text`. Raises InputError for a text pair."""
    found = []
    for row in rows:
        if isinstance(row, Sentence):
            found.append(row)
            continue
        if row.text_pair is not None:
            raise InputError(f"{row.file}, line {row.line}: a text pair cannot be tagged; use single texts.")
        found.append(Sentence.of_text(row.text, row.line, row.file, segment))
    return found


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


# -- Word boundaries for answer spans, as character offsets in the original text --------------------------------------
#
# SQuAD answers are whole words without surrounding punctuation. Words are runs of letters, digits and combining marks;
# every punctuation character is a separate word as in BERT's tokenizer, except inside a word: "3.5", "1,000", "U.S",
# "don't". An English 's is a separate word ("Newton's" contains "Newton"). In scripts without spaces between words
# (Chinese, Japanese, Thai, Lao, Khmer, Burmese and some others), and in Korean, which attaches particles to nouns, each
# character with its combining marks is a word.


# One letter for each character class, so that one expression describes words of all scripts.
_SPACE, _LETTER, _DIGIT, _MARK, _CHARACTER, _OTHER = " a0mcp"
_OWN_KINDS = {"'": "'", "\u2019": "'", ".": ".", ",": ",", "s": "s", "S": "s", "\u200b": _OTHER}
_MARKS = "\u0e33\u0eb3\U0001f3fb-\U0001f3ff"  # Thai and Lao vowels after a consonant; skin tones
_IS_MARK = re.compile(f"[{_MARKS}]")
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f"
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u312f"
    "\u3130-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\ua980-\ua9ff\uaa60-\uaa7f"
    "\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U0001aff0-\U0001b16f\U00020000-\U0003ffff]"
)
_WORD = re.compile(
    r"""
    [as0] m* (?: [as0] m*
        | (?<=0) [.,] (?=0)                                    # 3.5, 1,000
        | (?<=(?<![as0m]) [as]) \. (?=[as] (?![as0m]))         # U.S
        | ' (?=[as]) (?! s (?![as0m]) )                        # don't, but not Newton's
    )*
    | (?<=[as0m]) ' s m* (?![as0m])                            # the 's of Newton's
    | [^ ] m*
    """,
    re.VERBOSE,
)
_WITHOUT_MARKS = re.compile("[as0][as0m]*|cm*")
_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff\uffa0-\uffdc]")


class _Kinds(dict[int, str]):
    """Cache of the class of each character by code point."""

    def __missing__(self, code: int) -> str:
        self[code] = kind = _kind(chr(code))
        return kind


def _kind(character: str) -> str:
    if character in _OWN_KINDS:
        return _OWN_KINDS[character]
    category = unicodedata.category(character)
    if character.isspace():
        return _SPACE
    if category[0] == "M" or category == "Cf" or _IS_MARK.match(character):
        return _MARK
    if not character.isalnum() and category != "Pc":
        return _OTHER
    if category[0] == "L" and _WITHOUT_SPACES.match(character):
        return _CHARACTER
    return _DIGIT if category[0] == "N" else _LETTER


_KINDS = _Kinds()


def word_edges(text: str) -> np.ndarray:
    """Returns start and end of the word around each character of `text`: int64 [characters, 2].

    Whitespace is outside of words: its entry is the start of the next word and the end of the previous one.
    """
    kinds = text.translate(_KINDS)
    spans = np.array([match.span() for match in _WORD.finditer(kinds)], dtype=np.int64).reshape(-1, 2)
    places = np.arange(len(text))
    following = np.searchsorted(spans[:, 1], places, side="right")  # first word that ends after the character
    previous = np.searchsorted(spans[:, 0], places, side="right")  # number of words that begin at or before it
    starts = np.append(spans[:, 0], len(text))[following]
    ends = np.insert(spans[:, 1], 0, 0)[previous]
    return np.stack([starts, ends], axis=1)


def words_and_numbers(text: str) -> list[str]:
    """Returns the words of `text` in order, without punctuation, also inside a word: what scores of overlap compare.

    Compatible characters count as one (NFKC), a combining mark belongs to its letter, and in scripts without spaces
    each character is a word. For ASCII these are the runs of letters and digits.
    """
    text = unicodedata.normalize("NFKC", text).replace("_", " ")
    return [text[slice(*match.span())] for match in _WITHOUT_MARKS.finditer(text.translate(_KINDS))]


def has_no_spaces(text: str) -> bool:
    """Whether most letters of `text` are of scripts without spaces between words; Korean has spaces."""
    kinds = _HANGUL.sub("a", text).translate(_KINDS)
    characters = kinds.count(_CHARACTER)
    return characters > kinds.count(_LETTER) + kinds.count("s") + kinds.count("S")


def whole_words(edges: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """Expands character spans to whole words and strips surrounding whitespace: int64 [spans, 2].

    edges: from `word_edges`; spans: int [spans, 2], starts and ends. An empty or whitespace-only span results in an end
    at or before its start.
    """
    if not len(edges):
        return np.zeros((len(spans), 2), dtype=np.int64)
    last = len(edges) - 1
    starts = edges[np.clip(spans[:, 0], 0, last), 0]
    ends = edges[np.clip(spans[:, 1] - 1, 0, last), 1]
    return np.stack([starts, np.where(spans[:, 1] > spans[:, 0], ends, starts)], axis=1)
