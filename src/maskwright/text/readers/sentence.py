"""A sentence of words, with or without tags: the row of token classification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.errors import InputError
from ..words import Span, split_words

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
