"""Displays word segmentation with ## on the right subword (BERT: `la ##ern`) or on the left one (`la## ern`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .marian import MarianBackend
from .vocabulary import END_OF_WORD

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

MARK = "##"
NOTATIONS = ("right", "left")


def subwords_by_word(tokenizer: Tokenizer, ids: Sequence[int]) -> list[list[str]]:
    """Returns the bare subwords of each word of `ids`: no ##, </w> or spaces; special tokens are words."""
    words: list[list[str]] = []
    for id, starts in zip(ids, tokenizer.word_starts(ids), strict=True):
        piece = bare(tokenizer, int(id))
        if starts or not words:
            words.append([])
        if piece:
            words[-1].append(piece)
    return [pieces for pieces in words if pieces]


def format_subwords(tokenizer: Tokenizer, ids: Sequence[int], notation: str = "right") -> str:
    """Formats the subwords of `ids` on one line: `taa ##aaa ##sty`, or `taa## aaa## sty` with notation "left"."""
    return " ".join(join_subwords(pieces, notation) for pieces in subwords_by_word(tokenizer, ids))


def join_subwords(pieces: Sequence[str], notation: str = "right") -> str:
    """Joins the subwords of one word with the mark as in `notation`."""
    return f"{MARK} ".join(pieces) if notation == "left" else f" {MARK}".join(pieces)


def bare(tokenizer: Tokenizer, id: int) -> str:
    """Returns the text of one subword without marks."""
    token = tokenizer.tokens[id]
    if id in tokenizer.special_ids:
        return token
    words = tokenizer.word_markers.words
    if words == "bytes" and not isinstance(tokenizer.backend, MarianBackend):
        text = tokenizer.backend.decoder.decode([token])
        return token if "\ufffd" in text else text.strip()
    if words == "suffix":
        return token.removesuffix(END_OF_WORD)
    return token.removeprefix(MARK) if words == "prefix" and token != MARK else token.strip()
