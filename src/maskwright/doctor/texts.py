"""What single texts show: characters that do not belong, how long they are, columns that never change."""

from __future__ import annotations

import re
import unicodedata
from array import array
from typing import TYPE_CHECKING

import numpy as np

from ..core.plural import plural
from .findings import Finding, Place, Tally
from .rows import Item

if TYPE_CHECKING:
    from ..text.tokenizer import Tokenizer

CUTS = (128, 256, 512)
_BLOCK = 1024
_LONG_WORDS = 2000
_CONTROL = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_MOJIBAKE = re.compile(  # UTF-8 that was read as Latin-1 or Windows-1252, once
    "\u00c3[\u0080-\u00bf\u0192\u02c6\u02dc\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u2018-\u203a\u20ac\u2122]"
    "|\u00c2[\u00a0-\u00bf]|\u00e2\u20ac|\u00ef\u00bb\u00bf|\u00f0\u0178"
)
_HIDDEN = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff]")
_MARKUP = re.compile(r"&(?:amp|lt|gt|quot|nbsp|#\d+);|<(?:br|p|div|span|a)\b[^>]*>", re.IGNORECASE)


class Characters:
    """Texts with signs of damage."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.control, self.mojibake, self.lost, self.hidden = Tally(), Tally(), Tally(), Tally()
        self.markup, self.unnormal = Tally(), Tally()

    def see(self, item: Item) -> None:
        """Look at the texts of a row."""
        text = item.text if item.pair is None else f"{item.text} {item.pair}"
        self._count(self.control, _CONTROL.search(text), item)
        if "&" in text or "<" in text:
            self._count(self.markup, _MARKUP.search(text), item)
        if text.isascii():
            return
        self._count(self.mojibake, _MOJIBAKE.search(text), item)
        self._count(self.lost, re.search("\ufffd", text), item)
        self._count(self.hidden, _HIDDEN.search(text), item)
        if not unicodedata.is_normalized("NFC", text):
            self.unnormal.add(self.file, item.line)

    def _count(self, tally: Tally, found: re.Match[str] | None, item: Item) -> None:
        if found is not None:
            codes = " ".join(f"U+{ord(character):04X}" for character in found[0][:3])
            shown = found[0] if found[0].isprintable() else codes
            tally.add(self.file, item.line, f"at character {found.start() + 1}: {shown}")

    def findings(self) -> list[Finding]:
        """In words."""
        return [
            *self.mojibake.finding(
                "mojibake", "warning", "{count:text looks|texts look} like UTF-8 that was read in another encoding.",
                "Write the file again from its source as UTF-8.",
            ),
            *self.lost.finding(
                "lost-characters", "warning", "{count:text holds|texts hold} U+FFFD, where characters were lost.",
                "Write the file again from its source as UTF-8.",
            ),
            *self.control.finding("control-characters", "warning", "{count:text holds|texts hold} control characters."),
            *self.hidden.finding(
                "hidden-characters", "note", "{count:text holds|texts hold} characters that are not seen."
            ),
            *self.markup.finding("markup", "note", "{count:text holds|texts hold} markup of web pages."),
            *self.unnormal.finding(
                "unicode-forms", "note",
                "{count:text spells|texts spell} accents as characters of their own (not NFC).",
            ),
        ]  # fmt: skip


class Lengths:
    """How long the rows of a file are, in words, and in tokens where a tokenizer is given."""

    def __init__(self, file: str, tokenizer: Tokenizer | None) -> None:
        self.file, self.tokenizer = file, tokenizer
        self.words, self.tokens, self.lines = array("I"), array("I"), array("Q")
        self._waiting: list[Item] = []

    def see(self, item: Item, num_words: int) -> None:
        """Take a row in."""
        self.words.append(num_words)
        self.lines.append(item.line)
        if self.tokenizer is not None:
            self._waiting.append(item)
            if len(self._waiting) == _BLOCK:
                self._flush()

    def _flush(self) -> None:
        from ..text.encoding import TextCounts

        assert self.tokenizer is not None
        texts = [item.text if item.pair is None else (item.text, item.pair) for item in self._waiting]
        ids, _ = self.tokenizer.encode_ids(texts, None, counts=TextCounts())
        self.tokens.extend(len(row) for row in ids)
        self._waiting = []

    def close(self) -> Lengths:
        """No more rows come."""
        if self._waiting:
            self._flush()
        return self

    def facts(self) -> dict[str, float]:
        """Median, 95th centile and most, and the share that is cut at each usual length."""
        unit, lengths = self._unit()
        if not len(lengths):
            return {}
        middle, high = np.quantile(lengths, [0.5, 0.95])
        facts = {f"median {unit}": float(middle), f"95 % {unit}": float(high), f"most {unit}": float(lengths.max())}
        cut = {f"share cut at {size} tokens": float((lengths > size).mean()) for size in CUTS} if self.tokens else {}
        return facts | cut

    def histogram(self, bins: int = 30) -> tuple[str, list[float], list[int]]:
        """Unit, edges [bins + 1], counts [bins]."""
        unit, lengths = self._unit()
        if not len(lengths):
            return unit, [], []
        counts, edges = np.histogram(lengths, bins=min(bins, max(int(lengths.max()), 1)))
        return unit, edges.tolist(), counts.tolist()

    def findings(self) -> list[Finding]:
        """Rows that are far longer than the others."""
        unit, lengths = self._unit()
        limit = 512 if self.tokens else _LONG_WORDS
        rows = np.flatnonzero(lengths > limit)
        if not len(rows):
            return []
        places = [Place(self.file, int(self.lines[row]), f"{int(lengths[row]):,} {unit}") for row in rows[:5].tolist()]
        sentence = f"{plural(len(rows), 'row is', 'rows are')} longer than {limit:,} {unit}; most models cut them."
        return [Finding("long-rows", "warning", sentence, len(rows), "Split them, or see --max-length.", places)]

    def _unit(self) -> tuple[str, np.ndarray]:
        chosen = self.tokens if self.tokens else self.words
        return ("tokens" if self.tokens else "words"), np.frombuffer(chosen, dtype=np.uint32)


class Constants:
    """Columns with one value from the first row to the last."""

    def __init__(self, file: str) -> None:
        self.file, self.num_rows = file, 0
        self.first: dict[str, str | None] = {}

    def see(self, item: Item) -> None:
        """Take a row in."""
        cells = {"text": item.text, "text_pair": item.pair}
        if not self.num_rows:
            self.first = {name: value for name, value in cells.items() if value is not None}
        self.num_rows += 1
        for name in [name for name, value in self.first.items() if value != cells[name]]:
            del self.first[name]

    def findings(self) -> list[Finding]:
        """In words; a single row says nothing."""
        if self.num_rows < 2:
            return []
        return [
            Finding(
                "constant-column", "problem", f"The column of the {name.replace('_', ' ')} is the same in every row.",
                self.num_rows, "Say which column is what with --columns.",
            )
            for name in self.first
        ]  # fmt: skip
