"""Files cut into passages, each a stretch of its source: paragraphs, and longer ones in windows of sentences.

A paragraph is what stands between blank lines of a `.txt`, or the text of a row of a table. One of at most `max_tokens`
tokens is a passage; of a longer one, as many sentences as fit together are one; a sentence that is too long by itself
is cut between words. Nothing is lost but white space, and memory holds one paragraph (of a .txt at most MAX_PARAGRAPH
characters, of a table one row).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from ..core.errors import RowError
from .corpus import CorpusFacts, row_texts
from .files import file_format, read_source_lines
from .sentences import sentence_spans

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

Span = tuple[int, int]
MAX_PARAGRAPH = 1 << 16  # characters


@dataclass(frozen=True, slots=True)
class Passage:
    """text: as in the source; line: where it begins (of a table: the row); start, end: its characters in the file's
    text, line ends and byte order mark included, or in the text of the row.
    """

    text: str
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Paragraph:
    """text: a stretch of the source; lines: where each of its lines begins, with its number; start: in the source."""

    text: str
    start: int
    lines: tuple[Span, ...]


def read_passages(name: str, tokenizer: Tokenizer, max_tokens: int, *, text_field: str = "text") -> Iterator[Passage]:
    """The passages of one file, in order, of at most `max_tokens` tokens each (special ones not counted).

    text_field: the column with the text of tables. Bad lines and rows are left out; `bad_rows_of` names them.
    """
    for paragraph in _paragraphs(name, text_field, CorpusFacts()):
        yield from _passages(paragraph, tokenizer, max_tokens)


def bad_rows_of(name: str, text_field: str = "text") -> list[RowError]:
    """The lines or rows of a file that cannot be read."""
    facts = CorpusFacts()
    for _ in _paragraphs(name, text_field, facts):
        pass
    return facts.bad_rows


def _paragraphs(name: str, text_field: str, facts: CorpusFacts) -> Iterator[_Paragraph]:
    kind = file_format(name, default="txt")
    return _plain(name, facts) if kind == "txt" else _rows(name, kind, text_field, facts)


def _passages(paragraph: _Paragraph, tokenizer: Tokenizer, max_tokens: int) -> Iterator[Passage]:
    for start, end in cut(paragraph.text, tokenizer, max_tokens):
        line = next(number for place, number in reversed(paragraph.lines) if place <= start)
        yield Passage(paragraph.text[start:end], line, paragraph.start + start, paragraph.start + end)


def cut(text: str, tokenizer: Tokenizer, max_tokens: int) -> list[Span]:
    """Stretches of `text` of at most `max_tokens` tokens, in order: as many whole sentences as fit together."""
    pieces: list[tuple[Span, int]] = []
    spans = sentence_spans(text)
    sentences = [text[start:end] for start, end in spans]
    for (start, end), encoding in zip(spans, tokenizer.encode_batch(sentences, add_special_tokens=False), strict=True):
        offsets = encoding.offsets
        if len(offsets) <= max_tokens:
            pieces.append(((start, end), len(offsets)))
            continue
        firsts = [offsets[place][0] for place in _cuts(encoding.word_ids, max_tokens)]
        for first, last in pairwise([0, *firsts[1:], end - start]):
            own = _trimmed(text, start + first, start + last)
            if own[0] < own[1]:
                pieces.append((own, max_tokens))
    return _together(pieces, max_tokens)


def _cuts(word_ids: Sequence[int | None], max_tokens: int) -> list[int]:
    """The tokens at which pieces of at most `max_tokens` begin: where a word begins, unless one word is longer."""
    cuts = [0]
    while len(word_ids) - cuts[-1] > max_tokens:
        place = limit = cuts[-1] + max_tokens
        while place > cuts[-1] and word_ids[place] == word_ids[place - 1]:
            place -= 1
        cuts.append(place if place > cuts[-1] else limit)
    return cuts


def _together(pieces: list[tuple[Span, int]], max_tokens: int) -> list[Span]:
    """Neighbours joined as long as they fit."""
    joined: list[Span] = []
    tokens = 0
    for (start, end), count in pieces:
        if joined and tokens + count <= max_tokens:
            joined[-1] = (joined[-1][0], end)
            tokens += count
        else:
            joined.append((start, end))
            tokens = count
    return joined


def _trimmed(text: str, start: int, end: int) -> Span:
    """The stretch without white space at its ends."""
    piece = text[start:end]
    begin = start + len(piece) - len(piece.lstrip())
    return begin, max(begin, start + len(piece.rstrip()))


def _plain(name: str, facts: CorpusFacts) -> Iterator[_Paragraph]:
    """Lines between blank ones, with their line ends."""
    parts: list[str] = []
    lines: list[Span] = []
    begin = place = size = 0
    for number, source, fault in read_source_lines(name):
        mark = number == 1 and source.startswith("\ufeff")  # it is counted, and no part of a passage
        raw = source[1:] if mark else source
        place += mark
        is_blank = not raw.strip()
        if fault:
            facts.add_bad([RowError(name, number, None, fault)])
        if parts and (is_blank or fault or size + len(raw) > MAX_PARAGRAPH):
            yield _Paragraph("".join(parts), begin, tuple(lines))
            parts, lines, size = [], [], 0
        if not is_blank and not fault:
            if not parts:
                begin = place
            lines.append((size, number))
            parts.append(raw)
            size += len(raw)
        place += len(raw)
    if parts:
        yield _Paragraph("".join(parts), begin, tuple(lines))


def _rows(name: str, kind: str, text_field: str, facts: CorpusFacts) -> Iterator[_Paragraph]:
    """The text of each row of a table."""
    for line, text in row_texts(name, kind, text_field, facts):
        yield _Paragraph(text, 0, ((0, line),))
