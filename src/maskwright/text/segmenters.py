"""Splits text into the words that a tagger was trained on.

A tagger is trained on words of a file and later reads text. `find_segmenter` compares the ways to split text with those
words: rules for text with spaces (`words`), spaces alone, single characters, and dictionaries for Chinese (jieba) and
Japanese (fugashi with UniDic), which are an extra. If none of them finds the words, texts must be given as words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from threading import Lock
from typing import Any

from ..core.errors import InputError, MissingExtraError
from .words import Sentence, Span, character_end, is_visible, split_words

DEFAULT_SEGMENTER = "rules"
EXTRA = "segmenters"
LEAST_AGREEMENT = 0.75  # dictionaries and corpora differ in 15 to 20 % of Chinese words
MAX_ROWS = 1000  # sentences that are compared
LEAST_UNSPACED = 0.05  # fraction of words in scripts without spaces
_HAN_RANGES = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f"
_HAN = re.compile(f"[{_HAN_RANGES}]")
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_OTHERS = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan, Burmese, Khmer
_UNSPACED = re.compile(f"[{_HAN_RANGES}{_OTHERS}\u3041-\u30ff]")
_UNSPACED_MARKS = re.compile(f"[{_HAN_RANGES}{_OTHERS}\u3001-\u30ff\uff01-\uffef]")  # with full-width punctuation
_ONE_AT_A_TIME = Lock()  # a tagger of fugashi is not safe in threads
_ATTACHED = re.compile(r"\w[.,;:!?]$")


def _spaces(text: str) -> list[Span]:
    return [found.span() for found in re.finditer(r"\S+", text)]


def _characters(text: str) -> Iterator[Span]:
    start = 0
    while start < len(text):
        end = character_end(text, start, len(text))
        if not text[start].isspace():
            yield start, end
        start = end


def _jieba(text: str) -> list[Span]:
    return [(start, end) for _, start, end in _load_jieba().tokenize(text)]


@cache
def _load_jieba() -> Any:
    try:
        import jieba
    except ImportError:
        raise MissingExtraError("Splitting Chinese text into words with jieba", EXTRA) from None
    jieba.setLogLevel("ERROR")
    return jieba


def _fugashi(text: str) -> Iterator[Span]:
    with _ONE_AT_A_TIME:
        words = [word.surface for word in _load_fugashi()(text)]
    end = 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        yield start, end


@cache
def _load_fugashi() -> Any:
    try:
        import fugashi
        import unidic_lite
    except ImportError:
        raise MissingExtraError("Splitting Japanese text into words with fugashi", EXTRA) from None
    return fugashi.Tagger(f'-d "{unidic_lite.DICDIR}"')


SEGMENTERS: dict[str, Callable[[str], Any]] = {
    "rules": split_words,
    "spaces": _spaces,
    "characters": _characters,
    "jieba": _jieba,
    "fugashi": _fugashi,
}
_LIBRARIES = {"jieba": ("jieba",), "fugashi": ("fugashi", "unidic_lite")}


def segment(text: str, segmenter: str | None) -> list[Span]:
    """Returns start and end character of each word of a text, in order.

    Raises InputError without a segmenter, MissingExtraError for one that is not installed.
    """
    if segmenter is None:
        raise InputError(
            "This model was trained on words that no segmenter finds in text: pass words, as lists in Python or as a "
            "file of CoNLL columns or .jsonl with tokens."
        )
    found = SEGMENTERS[segmenter](text)
    return [span for span in found if text[slice(*span)].strip() and is_visible(text[slice(*span)])]


@dataclass(frozen=True)
class FoundSegmenter:
    """The segmenter that finds the words of sentences. name: None if none does; agreements: F1 of those compared."""

    name: str | None
    agreements: dict[str, float]
    missing: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """What predictions do with text, in one sentence; "" for the rules."""
        compared = ", ".join(f"{name} {score:.0%}" for name, score in self.agreements.items())
        if self.name is None:
            hint = f" (pip install 'maskwright[{EXTRA}]' before training to try {' and '.join(self.missing)})"
            return (
                f"No segmenter finds the words of the training data in text without spaces ({compared}): predictions "
                f"need words, not text{hint if self.missing else ''}."
            )
        if self.name == DEFAULT_SEGMENTER:
            return ""
        how = {"spaces": "at spaces alone", "characters": "into characters"}.get(self.name, f"by {self.name}")
        right = f", which finds {self.agreements[self.name]:.0%} of the words" if compared else ""
        return f"Predictions split text {how}{right}."


def find_segmenter(rows: Sequence[Sentence]) -> FoundSegmenter:
    """Returns the segmenter that finds the words of sentences best, of those that are installed."""
    rows = rows[:: max(len(rows) // MAX_ROWS, 1)]
    words = [word for row in rows for word in row.words]
    is_unspaced = sum(_UNSPACED.search(word) is not None for word in words) > LEAST_UNSPACED * len(words)
    if _are_characters(rows) and (not is_unspaced or any(map(_has_split_number, rows))):
        return FoundSegmenter("characters", {})
    if not is_unspaced:
        is_attached = sum(_ATTACHED.search(word) is not None for word in words) > 0.01 * len(words)
        has_marks = any(word in ".,;:!?" for word in words)
        return FoundSegmenter("spaces" if is_attached and not has_marks else DEFAULT_SEGMENTER, {})
    has_kana, has_han = (any(pattern.search(word) for word in words) for pattern in (_KANA, _HAN))
    dictionary = "fugashi" if has_kana else "jieba" if has_han else None
    is_installed = dictionary is not None and all(find_spec(module) for module in _LIBRARIES[dictionary])
    names = ["rules", "characters", *([dictionary] if dictionary and is_installed else [])]
    texts = [_text_of(row) for row in rows]
    found = {name: _agreement(texts, name) for name in names}
    best = max(names, key=lambda name: found[name])
    missing = (dictionary,) if dictionary and not is_installed else ()
    return FoundSegmenter(best if found[best] >= LEAST_AGREEMENT else None, found, missing)


def _are_characters(rows: Sequence[Sentence]) -> bool:
    """Whether words are single characters, mostly outside ASCII."""
    words = [word for row in rows for word in row.words]
    single = [word for word in words if character_end(word, 0, len(word)) == len(word)]
    return len(single) > 0.99 * len(words) and sum(not word.isascii() for word in single) * 2 > len(words)


def _has_split_number(row: Sentence) -> bool:
    """Whether a number or a word in Latin letters is split into characters."""
    return any(
        one.isascii() and one.isalnum() and other.isascii() and other.isalnum() for one, other in pairwise(row.words)
    )


def _text_of(row: Sentence) -> tuple[str, Sequence[Span]]:
    """The text of a sentence, without the spaces that files of words have between those of scripts without spaces."""
    if row.text != " ".join(row.words):
        return row.text, row.spans
    text, spans = "", []
    for word in row.words:
        if text and not (_UNSPACED_MARKS.match(text[-1]) or _UNSPACED_MARKS.match(word)):
            text += " "
        spans.append((len(text), len(text) + len(word)))
        text += word
    return text, spans


def _agreement(texts: Sequence[tuple[str, Sequence[Span]]], segmenter: str) -> float:
    """F1 of the words that a segmenter finds."""
    num_both = num_words = 0
    for text, spans in texts:
        found = segment(text, segmenter)
        num_both += len(set(found) & set(spans))
        num_words += len(found) + len(spans)
    return 2 * num_both / max(num_words, 1)
