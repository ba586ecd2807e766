"""How SentencePiece writes a text before it is cut: characters replaced by a table, spaces as ▁ (Kudo and Richardson
2018, section 3.2).

At every place the longest entry of the table counts. (The fast tokenizers of other families take whole graphemes
instead, which differs for letters under several marks.)
"""

from __future__ import annotations

import re

import numpy as np

from .sentencepiece_model import USER_DEFINED, Pieces

SPACE = "▁"
REMEMBERED = 1 << 15  # parts of texts between spaces, mostly words
_LONGEST_REMEMBERED = 64

Parts = list[tuple[str, int]]  # what stands for each part of a text, and of how many characters that part is


class Normaliser:
    """Writes texts as the model of `pieces` does. Raises ValueError for a table that is damaged."""

    def __init__(self, pieces: Pieces) -> None:
        self.table = Charsmap(pieces.charsmap)
        self.adds_prefix, self.trims = pieces.adds_prefix, pieces.trims
        kept = (text for (text, _), kind in zip(pieces.vocab, pieces.kinds, strict=True) if kind == USER_DEFINED)
        longest_first = sorted(filter(None, kept), key=len, reverse=True)
        self._kept = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        is_split = not self.table.has_spaces and not any(" " in text for text in longest_first)
        self._split = re.compile(" +|[^ ]+" if is_split else r"(?s:.+)")
        self._remembered: dict[str, Parts] = {}

    def __call__(self, text: str) -> str:
        """The text as it is cut into pieces; empty where nothing of it is left."""
        text = "".join(own for own, _ in self._parts(text))
        if self.trims:
            text = re.sub(" {2,}", " ", text.strip(" "))
        if not text:
            return ""
        written = (SPACE if self.adds_prefix else "") + text.replace(" ", SPACE)
        return written.rstrip(SPACE) if self.trims else written

    def aligned(self, text: str) -> tuple[str, list[tuple[int, int]]]:
        """The same, and where each of its characters comes from: (start, end) in the text as given."""
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
            known = self._remembered.get(chunk)
            if known is None:
                known = self._replaced(chunk)
                if len(chunk) <= _LONGEST_REMEMBERED:
                    if len(self._remembered) >= REMEMBERED:
                        self._remembered = {}
                    self._remembered[chunk] = known
            found += known
        return found

    def _replaced(self, chunk: str) -> Parts:
        """What the table makes of a part of a text; what the model keeps whole is passed on."""
        found: Parts = []
        place = 0
        for kept in self._kept.finditer(chunk):
            found += self.table.replaced(chunk[place : kept.start()])
            found.append((kept[0], len(kept[0])))
            place = kept.end()
        return found + self.table.replaced(chunk[place:])


class Charsmap:
    """A compiled table of what is replaced by what.

    It is the size of a double array (uint32), the array, in which entries are spelt byte by byte, and the replacements,
    each closed by a zero byte. A unit of the array has a label (8 bits, and the highest for a number), whether an entry
    ends there (bit 8), and the offset to its children: the child for byte `c` stands at base ^ c if its label is c, the
    number of an entry at base itself. Raises ValueError for anything else.
    """

    def __init__(self, compiled: bytes) -> None:
        size = int.from_bytes(compiled[:4], "little")
        if compiled and (size % 4 or not 4 <= size <= len(compiled) - 4):
            raise ValueError("the table of its normaliser is cut off")
        units = np.frombuffer(compiled, dtype="<u4", count=size // 4, offset=4 if compiled else 0)
        self.texts = compiled[4 + size :]
        bases = np.arange(len(units)) ^ ((units >> 10) << ((units & 512) >> 6)).astype(np.int64)
        is_number = units >> 31 == 1
        if bool((bases[~is_number] >= len(units)).any()):
            raise ValueError("the table of its normaliser is damaged")
        starts = units[bases[~is_number & (units >> 8 & 1 == 1)]] & 0x7FFFFFFF
        if len(starts) and (int(starts.max()) >= len(self.texts) or not self.texts.endswith(b"\0")):
            raise ValueError("the replacements of its normaliser are cut off")
        self.has_spaces = bool((units & 0x800000FF == ord(" ")).any())
        self.units: list[int] = units.tolist()
        self.bases: list[int] = bases.tolist()

    def replaced(self, text: str) -> Parts:
        """What stands for each part of a text: the replacement of the longest entry, else the character itself."""
        if not self.units:
            return [(one, 1) for one in text]
        data = text.encode("utf-8", errors="surrogatepass")
        found: Parts = []
        place = index = 0  # the byte, and the character
        while index < len(text):
            own, size = self._longest(data, place)
            if own is None:
                own, size = text[index], len(text[index].encode("utf-8", errors="surrogatepass"))
            length = len(data[place : place + size].decode("utf-8", errors="surrogatepass"))
            found.append((own, length))
            place, index = place + size, index + length
        return found

    def _longest(self, data: bytes, place: int) -> tuple[str | None, int]:
        """The replacement of the longest entry that begins at a byte, and its size in bytes; None without one."""
        base, start, size = self.bases[0], -1, 0
        for end in range(place, len(data)):
            child = base ^ data[end]
            if child >= len(self.units) or self.units[child] & 0x800000FF != data[end]:
                break
            base = self.bases[child]
            is_whole = end + 1 == len(data) or data[end + 1] & 0xC0 != 0x80  # no character is cut in two
            if self.units[child] & 256 and is_whole:
                start, size = self.units[base] & 0x7FFFFFFF, end + 1 - place
        if start < 0:
            return None, 0
        own = self.texts[start : self.texts.index(b"\0", start)]
        return own.decode("utf-8", errors="replace"), size
