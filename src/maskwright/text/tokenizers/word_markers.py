"""How the tokens of each tokenizer kind mark word boundaries: the one table of what other code asks of a kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class WordMarkers:
    """How tokens mark where a word begins, and what decoding keeps.

    Attributes:
        words: "prefix": a token that continues a word begins with ##; "suffix": the last token of a word ends with
            </w>; "bytes": the first token of a word begins with a space, in the alphabet of byte-level BPE; "space":
            words are separated by a token for the space; "whole": every token is a word; "": not shown.
        keeps_spaces: Whether tokens decode without changing spaces around them.
        line_separator: Text between two lines that the tokenizer preserves; "" if it preserves none.
    """

    words: Literal["prefix", "suffix", "bytes", "space", "whole", ""] = ""
    keeps_spaces: bool = False
    line_separator: str = ""


WORD_MARKERS = {  # any other kind: WordMarkers()
    "wordpiece": WordMarkers("prefix"),
    "wordpiece-score": WordMarkers("prefix"),
    "bpe": WordMarkers("suffix"),
    "byte-bpe": WordMarkers("bytes", keeps_spaces=True, line_separator="\n"),
    "word": WordMarkers("whole"),
    "char": WordMarkers("space", keeps_spaces=True, line_separator=" "),
    "unigram": WordMarkers(keeps_spaces=True),
}
