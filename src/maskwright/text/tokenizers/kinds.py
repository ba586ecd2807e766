"""How the tokens of each kind of tokenizer show words: the one table of what code outside a trainer asks of a kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Notation:
    """How tokens show where a word begins, and what decoding keeps.

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


NOTATIONS = {  # any other kind: Notation()
    "wordpiece": Notation("prefix"),
    "wordpiece-score": Notation("prefix"),
    "bpe": Notation("suffix"),
    "byte-bpe": Notation("bytes", keeps_spaces=True, line_separator="\n"),
    "word": Notation("whole"),
    "char": Notation("space", keeps_spaces=True, line_separator=" "),
    "unigram": Notation(keeps_spaces=True),
}
