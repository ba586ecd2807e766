"""Word boundaries for answer spans, as character offsets in the original text.

SQuAD answers are whole words without surrounding punctuation. Words are runs of letters, digits and combining marks;
every punctuation character is a separate word as in BERT's tokenizer, except inside a word: "3.5", "1,000", "U.S",
"don't". An English 's is a separate word ("Newton's" contains "Newton"). In scripts without spaces between words
(Chinese, Japanese, Thai, Lao, Khmer, Burmese and some others), and in Korean, which attaches particles to nouns, each
character with its combining marks is a word.
"""

from __future__ import annotations

import re
import unicodedata

import numpy as np

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
