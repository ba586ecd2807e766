"""Splits files into passages: paragraphs, and windows of sentences for longer paragraphs.

A paragraph is a block between blank lines of a `.txt`, or the text of a table row. A paragraph of at most `max_tokens`
tokens is one passage; a longer one is split into groups of consecutive sentences; an even longer sentence is split
between words. Only whitespace is lost. Memory use is one paragraph (.txt: at most MAX_PARAGRAPH characters; tables: one
row).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from ...core.errors import RowError
from ..formats.files import file_format, read_source_lines
from ..words import sentence_spans
from .corpus import CorpusFacts, row_texts

if TYPE_CHECKING:
    from ..tokenizers.tokenizer import Tokenizer

Span = tuple[int, int]
MAX_PARAGRAPH = 1 << 16  # characters


@dataclass(frozen=True, slots=True)
class Passage:
    """text: as in the source; line: where it begins (tables: the row); start, end: character range in the file's text,
    including line ends and byte order mark, or in the text of the row.
    """

    text: str
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Paragraph:
    """text: of the source; lines: start and number of each of its lines; start: offset in the source."""

    text: str
    start: int
    lines: tuple[Span, ...]


def read_passages(name: str, tokenizer: Tokenizer, max_tokens: int, *, text_field: str = "text") -> Iterator[Passage]:
    """Yields the passages of one file in order, with at most `max_tokens` tokens each (without special tokens).

    text_field: text column of tables. Bad lines and rows are skipped; see `bad_rows_of`.
    """
    for paragraph in _paragraphs(name, text_field, CorpusFacts()):
        yield from _passages(paragraph, tokenizer, max_tokens)


def bad_rows_of(name: str, text_field: str = "text") -> list[RowError]:
    """Returns the errors of unreadable lines or rows of a file."""
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
    """Returns spans of `text` of at most `max_tokens` tokens, in order, with as many whole sentences as fit."""
    pieces: list[tuple[Span, int]] = []
    spans = sentence_spans(text)
    sentences = [text[start:end] for start, end in spans]
    for (start, end), encoding in zip(spans, tokenizer.encode_batch(sentences, add_special_tokens=False), strict=True):
        offsets = encoding.offsets
        if len(offsets) <= max_tokens:
            pieces.append(((start, end), len(offsets)))
            continue
        firsts = [offsets[place][0] for place in _split_points(encoding.word_ids, max_tokens)]
        for first, last in pairwise([0, *firsts[1:], end - start]):
            own = _strip_span(text, start + first, start + last)
            if own[0] < own[1]:
                pieces.append((own, max_tokens))
    return _merge_spans(pieces, max_tokens)


def _split_points(word_ids: Sequence[int | None], max_tokens: int) -> list[int]:
    """Returns the tokens at which spans of at most `max_tokens` begin: at word starts unless one word is longer."""
    cuts = [0]
    while len(word_ids) - cuts[-1] > max_tokens:
        place = limit = cuts[-1] + max_tokens
        while place > cuts[-1] and word_ids[place] == word_ids[place - 1]:
            place -= 1
        cuts.append(place if place > cuts[-1] else limit)
    return cuts


def _merge_spans(pieces: list[tuple[Span, int]], max_tokens: int) -> list[Span]:
    """Merges adjacent spans as long as they fit."""
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


def _strip_span(text: str, start: int, end: int) -> Span:
    """Returns the span without surrounding whitespace."""
    piece = text[start:end]
    begin = start + len(piece) - len(piece.lstrip())
    return begin, max(begin, start + len(piece.rstrip()))


def _plain(name: str, facts: CorpusFacts) -> Iterator[_Paragraph]:
    """Yields blocks between blank lines, with their line ends."""
    parts: list[str] = []
    lines: list[Span] = []
    begin = place = size = 0
    for number, source, fault in read_source_lines(name):
        mark = number == 1 and source.startswith("\ufeff")  # counted, but not part of a passage
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
    """Yields the text of each row of a table."""
    for line, text in row_texts(name, kind, text_field, facts):
        yield _Paragraph(text, 0, ((0, line),))
