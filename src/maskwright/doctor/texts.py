"""Text checks: damaged characters, lengths and constant columns."""

from __future__ import annotations

import re
import unicodedata
from array import array
from typing import TYPE_CHECKING

import numpy as np

from ..core.plural import plural
from .findings import Finding, FindingCounter, SourceLocation
from .rows import Item

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer

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
    """Counts texts with damaged or unusual characters."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.control, self.mojibake, self.lost, self.hidden = (
            FindingCounter(),
            FindingCounter(),
            FindingCounter(),
            FindingCounter(),
        )
        self.markup, self.unnormal = FindingCounter(), FindingCounter()

    def see(self, item: Item) -> None:
        """Check the texts of a row."""
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

    def _count(self, tally: FindingCounter, found: re.Match[str] | None, item: Item) -> None:
        if found is not None:
            codes = " ".join(f"U+{ord(character):04X}" for character in found[0][:3])
            shown = found[0] if found[0].isprintable() else codes
            tally.add(self.file, item.line, f"at character {found.start() + 1}: {shown}")

    def findings(self) -> list[Finding]:
        """Return the findings."""
        return [
            *self.mojibake.finding(
                "mojibake", "warning", "{count:text looks|texts look} like UTF-8 decoded with another encoding.",
                "Export the file again as UTF-8.",
            ),
            *self.lost.finding(
                "lost-characters", "warning",
                "{count:text contains|texts contain} U+FFFD, the replacement for undecodable characters.",
                "Export the file again as UTF-8.",
            ),
            *self.control.finding(
                "control-characters", "warning", "{count:text contains|texts contain} control characters."
            ),
            *self.hidden.finding(
                "hidden-characters", "note", "{count:text contains|texts contain} invisible characters."
            ),
            *self.markup.finding("markup", "note", "{count:text contains|texts contain} HTML markup."),
            *self.unnormal.finding(
                "unicode-forms", "note",
                "{count:text spells|texts spell} accents as combining characters (not NFC).",
            ),
        ]  # fmt: skip


class Lengths:
    """Row lengths of a file in words, and in tokens if a tokenizer is given."""

    def __init__(self, file: str, tokenizer: Tokenizer | None) -> None:
        self.file, self.tokenizer = file, tokenizer
        self.words, self.tokens, self.lines = array("I"), array("I"), array("Q")
        self._waiting: list[Item] = []

    def see(self, item: Item, num_words: int) -> None:
        """Add a row to the statistics."""
        self.words.append(num_words)
        self.lines.append(item.line)
        if self.tokenizer is not None:
            self._waiting.append(item)
            if len(self._waiting) == _BLOCK:
                self._flush()

    def _flush(self) -> None:
        from ..text.tokenizers.encoding import TextCounts

        assert self.tokenizer is not None
        texts = [item.text if item.pair is None else (item.text, item.pair) for item in self._waiting]
        ids, _ = self.tokenizer.encode_ids(texts, None, counts=TextCounts())
        self.tokens.extend(len(row) for row in ids)
        self._waiting = []

    def close(self) -> Lengths:
        """Tokenize the remaining rows."""
        if self._waiting:
            self._flush()
        return self

    def facts(self) -> dict[str, float]:
        """Return median, 95th percentile and maximum, and the fraction of rows truncated at common lengths."""
        unit, lengths = self._unit()
        if not len(lengths):
            return {}
        middle, high = np.quantile(lengths, [0.5, 0.95])
        facts = {f"median {unit}": float(middle), f"95 % {unit}": float(high), f"most {unit}": float(lengths.max())}
        cut = {f"share cut at {size} tokens": float((lengths > size).mean()) for size in CUTS} if self.tokens else {}
        return facts | cut

    def histogram(self, bins: int = 30) -> tuple[str, list[float], list[int]]:
        """Return unit, edges [bins + 1] and counts [bins]."""
        unit, lengths = self._unit()
        if not len(lengths):
            return unit, [], []
        counts, edges = np.histogram(lengths, bins=min(bins, max(int(lengths.max()), 1)))
        return unit, edges.tolist(), counts.tolist()

    def findings(self) -> list[Finding]:
        """Return a finding for very long rows."""
        unit, lengths = self._unit()
        limit = 512 if self.tokens else _LONG_WORDS
        rows = np.flatnonzero(lengths > limit)
        if not len(rows):
            return []
        places = [
            SourceLocation(self.file, int(self.lines[row]), f"{int(lengths[row]):,} {unit}")
            for row in rows[:5].tolist()
        ]
        sentence = f"{plural(len(rows), 'row is', 'rows are')} longer than {limit:,} {unit}; most models truncate them."
        return [Finding("long-rows", "warning", sentence, len(rows), "Split them, or raise --max-length.", places)]

    def _unit(self) -> tuple[str, np.ndarray]:
        chosen = self.tokens if self.tokens else self.words
        return ("tokens" if self.tokens else "words"), np.frombuffer(chosen, dtype=np.uint32)


class Constants:
    """Finds columns with the same value in every row."""

    def __init__(self, file: str) -> None:
        self.file, self.num_rows = file, 0
        self.first: dict[str, str | None] = {}

    def see(self, item: Item) -> None:
        """Add a row to the statistics."""
        cells = {"text": item.text, "text_pair": item.pair}
        if not self.num_rows:
            self.first = {name: value for name, value in cells.items() if value is not None}
        self.num_rows += 1
        for name in [name for name, value in self.first.items() if value != cells[name]]:
            del self.first[name]

    def findings(self) -> list[Finding]:
        """Return a finding per constant column; needs at least two rows."""
        if self.num_rows < 2:
            return []
        return [
            Finding(
                "constant-column", "problem", f"The column of the {name.replace('_', ' ')} is the same in every row.",
                self.num_rows, "Set the column mapping with --columns.",
            )
            for name in self.first
        ]  # fmt: skip
