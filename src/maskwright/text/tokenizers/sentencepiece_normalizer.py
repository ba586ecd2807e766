"""SentencePiece normalization: character replacement by a compiled table, spaces as ▁ (Kudo and Richardson 2018,
section 3.2).

At every position the longest entry of the table matches. (The fast tokenizers of other families replace whole graphemes
instead, which differs for letters with several combining marks.)
"""

from __future__ import annotations

import re

import numpy as np

from .sentencepiece_model import USER_DEFINED, Pieces

SPACE = "▁"
CACHE_SIZE = 1 << 15  # cached parts between spaces, mostly words
_LONGEST_REMEMBERED = 64

Parts = list[tuple[str, int]]  # replacement of each part, and the part's number of characters


class Normalizer:
    """Normalizes texts like the model of `pieces`. Raises ValueError for a damaged table."""

    def __init__(self, pieces: Pieces) -> None:
        self.table = Charsmap(pieces.charsmap)
        self.adds_prefix, self.trims = pieces.adds_prefix, pieces.trims
        kept = (text for (text, _), kind in zip(pieces.vocab, pieces.kinds, strict=True) if kind == USER_DEFINED)
        longest_first = sorted(filter(None, kept), key=len, reverse=True)
        self._kept = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        is_split = not self.table.has_spaces and not any(" " in text for text in longest_first)
        self._split = re.compile(" +|[^ ]+" if is_split else r"(?s:.+)")
        self._cache: dict[str, Parts] = {}

    def __call__(self, text: str) -> str:
        """Returns the normalized text; empty if nothing remains."""
        text = "".join(own for own, _ in self._parts(text))
        if self.trims:
            text = re.sub(" {2,}", " ", text.strip(" "))
        if not text:
            return ""
        written = (SPACE if self.adds_prefix else "") + text.replace(" ", SPACE)
        return written.rstrip(SPACE) if self.trims else written

    def aligned(self, text: str) -> tuple[str, list[tuple[int, int]]]:
        """Returns the normalized text, and the original (start, end) of each of its characters."""
        spans: list[tuple[str, int, int]] = []
        place = 0
        for own, length in self._parts(text):
            spans += [(one, place, place + length) for one in own]
            place += length
        if self.trims:
            before = [" ", *(one for one, _, _ in spans)]
            spans = [span for span, last in zip(spans, before, strict=False) if (span[0], last) != (" ", " ")]
            while spans and spans[-1][0] in (" ", SPACE):
                spans.pop()
        if spans and self.adds_prefix:
            spans.insert(0, (SPACE, spans[0][1], spans[0][1]))
        written = "".join(one for one, _, _ in spans).replace(" ", SPACE)
        return written, [(start, end) for _, start, end in spans]

    def _parts(self, text: str) -> Parts:
        found: Parts = []
        for chunk in self._split.findall(text):
            known = self._cache.get(chunk)
            if known is None:
                known = self._replaced(chunk)
                if len(chunk) <= _LONGEST_REMEMBERED:
                    if len(self._cache) >= CACHE_SIZE:
                        self._cache = {}
                    self._cache[chunk] = known
            found += known
        return found

    def _replaced(self, chunk: str) -> Parts:
        """Replaces by table in a part of a text; user-defined pieces are passed through."""
        found: Parts = []
        place = 0
        for kept in self._kept.finditer(chunk):
            found += self.table.replaced(chunk[place : kept.start()])
            found.append((kept[0], len(kept[0])))
            place = kept.end()
        return found + self.table.replaced(chunk[place:])


class Charsmap:
    """A compiled replacement table.

    Format: size of a double array (uint32), the double-array trie with entries spelled in bytes, and the replacements,
    each NUL-terminated. A trie unit has a label (8 bits, the highest bit marks a value), a leaf flag (bit 8), and the
    offset to its children: the child for byte `c` is at base ^ c if its label is c, the value of an entry at base.
    Raises ValueError for anything else.
    """

    def __init__(self, compiled: bytes) -> None:
        size = int.from_bytes(compiled[:4], "little")
        if compiled and (size % 4 or not 4 <= size <= len(compiled) - 4):
            raise ValueError("the table of its normalizer is truncated")
        units = np.frombuffer(compiled, dtype="<u4", count=size // 4, offset=4 if compiled else 0)
        self.texts = compiled[4 + size :]
        bases = np.arange(len(units)) ^ ((units >> 10) << ((units & 512) >> 6)).astype(np.int64)
        is_number = units >> 31 == 1
        if bool((bases[~is_number] >= len(units)).any()):
            raise ValueError("the table of its normalizer is damaged")
        starts = units[bases[~is_number & (units >> 8 & 1 == 1)]] & 0x7FFFFFFF
        if len(starts) and (int(starts.max()) >= len(self.texts) or not self.texts.endswith(b"\0")):
            raise ValueError("the replacements of its normalizer are truncated")
        self.has_spaces = bool((units & 0x800000FF == ord(" ")).any())
        self.units: list[int] = units.tolist()
        self.bases: list[int] = bases.tolist()

    def replaced(self, text: str) -> Parts:
        """Returns the replacement of the longest entry at each position, else the character itself."""
        if not self.units:
            return [(one, 1) for one in text]
        data = text.encode("utf-8", errors="surrogatepass")
        found: Parts = []
        place = index = 0  # byte and character index
        while index < len(text):
            own, size = self._longest(data, place)
            if own is None:
                own, size = text[index], len(text[index].encode("utf-8", errors="surrogatepass"))
            length = len(data[place : place + size].decode("utf-8", errors="surrogatepass"))
            found.append((own, length))
            place, index = place + size, index + length
        return found

    def _longest(self, data: bytes, place: int) -> tuple[str | None, int]:
        """Returns the replacement of the longest entry at a byte position, and its size in bytes; None if no match."""
        base, start, size = self.bases[0], -1, 0
        for end in range(place, len(data)):
            child = base ^ data[end]
            if child >= len(self.units) or self.units[child] & 0x800000FF != data[end]:
                break
            base = self.bases[child]
            is_whole = end + 1 == len(data) or data[end + 1] & 0xC0 != 0x80  # do not split a character
            if self.units[child] & 256 and is_whole:
                start, size = self.units[base] & 0x7FFFFFFF, end + 1 - place
        if start < 0:
            return None, 0
        own = self.texts[start : self.texts.index(b"\0", start)]
        return own.decode("utf-8", errors="replace"), size
