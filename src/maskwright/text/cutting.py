"""How a tokenizer cuts one word, step by step: what WordPiece tries, and which merges BPE applies in which order.

WordPiece (Wu et al. 2016) takes the longest piece of its vocabulary that the word begins with, then goes on behind it.
BPE (Sennrich et al. 2016) starts from characters and applies the merge that was learnt first, again and again. What the
last step leaves is what the `tokenizers` library gives; tests hold the two to one another.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .marian import MarianBackend
from .vocabulary import WORDPIECES

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

MOST_CHARACTERS = 200


@dataclass(frozen=True)
class CutStep:
    """One step.

    pieces: the word as it stands after the step; tried: pieces that were looked for and are not in the vocabulary,
    longest first (WordPiece); taken: the piece that was found, or made by a merge; rank: the number of the merge, from
    1 (BPE).
    """

    pieces: list[str]
    tried: list[str]
    taken: str | None
    rank: int | None = None


@dataclass(frozen=True)
class CutWord:
    """A word between the borders that the tokenizer draws, its steps, and its tokens at the end."""

    word: str
    steps: list[CutStep]
    tokens: list[str]


@dataclass(frozen=True)
class Cutting:
    """rule: "longest match", "merges", or "none" where the kind has no steps; words: those of the text, in order."""

    rule: str
    words: list[CutWord]

    def to_json(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Cutter:
    """Shows the steps of one tokenizer; its tables are read once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        backend = tokenizer.backend  # that of Marian finds all pieces of a text at once
        self.library = None if isinstance(backend, MarianBackend) else backend
        model: dict[str, Any] = (
            {"type": "Unigram"} if self.library is None else json.loads(self.library.to_str())["model"]
        )
        is_merged = model["type"] == "BPE" and not model.get("byte_fallback") and not model.get("ignore_merges")
        self.rule = "longest match" if tokenizer.kind in WORDPIECES else "merges" if is_merged else "none"
        self.prefix = model.get("continuing_subword_prefix") or ""
        self.suffix = model.get("end_of_word_suffix") or ""
        self.longest = model.get("max_input_chars_per_word", MOST_CHARACTERS)
        self.ranks: dict[tuple[str, str], int] = {}
        for rank, merge in enumerate(model.get("merges", ()) if is_merged else (), start=1):
            left, right = merge.split(" ") if isinstance(merge, str) else merge
            self.ranks.setdefault((left, right), rank)

    def cut(self, text: str) -> Cutting:
        """The words of a short text, cut step by step; of its first characters, `MOST_CHARACTERS` at most."""
        words = self._words(text[:MOST_CHARACTERS])
        if self.rule == "longest match":
            return Cutting(self.rule, [self._longest_match(word) for word in words])
        if self.rule == "merges":
            return Cutting(self.rule, [self._merges(word) for word in words])
        return Cutting(self.rule, [CutWord(word, [], self._tokens(word)) for word in words])

    def _words(self, text: str) -> list[str]:
        """What the model is given one at a time: normalised, and split before any piece is looked for."""
        backend = self.library
        if backend is None:
            return [text] if text else []
        normal = backend.normalizer.normalize_str(text) if backend.normalizer is not None else text
        if backend.pre_tokenizer is None:
            return [normal] if normal else []
        return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(normal)]

    def _tokens(self, word: str) -> list[str]:
        if self.library is None:
            return [self.tokenizer.id_to_token(one) or "" for one in self.tokenizer.encode_plain([word])[0]]
        return [token.value for token in self.library.model.tokenize(word)]

    def _longest_match(self, word: str) -> CutWord:
        steps: list[CutStep] = []
        found: list[str] = []
        start = 0
        while start < len(word) <= self.longest:
            tried: list[str] = []
            for end in range(len(word), start, -1):
                piece = (self.prefix if start else "") + word[start:end]
                if self.tokenizer.token_to_id(piece) is not None:
                    break
                tried.append(piece)
            else:  # nothing fits: the whole word is unknown
                steps.append(CutStep([*found, word[start:]], tried, None))
                return CutWord(word, steps, self._tokens(word))
            found.append(piece)
            steps.append(CutStep([*found, *([word[end:]] if end < len(word) else [])], tried, piece))
            start = end
        return CutWord(word, steps, self._tokens(word))

    def _merges(self, word: str) -> CutWord:
        row = [*((self.prefix if index else "") + letter for index, letter in enumerate(word))]
        if row:
            row[-1] += self.suffix
        steps = [CutStep(list(row), [], None)]
        while (best := self._first_merge(row)) is not None:
            row = _apply(row, best, self.prefix)
            taken = best[0] + best[1].removeprefix(self.prefix)
            steps.append(CutStep(list(row), [], taken, self.ranks[best]))
        return CutWord(word, steps, self._tokens(word))

    def _first_merge(self, row: Sequence[str]) -> tuple[str, str] | None:
        """The pair of neighbours that was learnt first, None where no merge applies."""
        known = [pair for pair in pairwise(row) if pair in self.ranks]
        return min(known, key=self.ranks.__getitem__, default=None)


def _apply(row: Sequence[str], pair: tuple[str, str], prefix: str) -> list[str]:
    """The row with every occurrence of the pair merged, from left to right."""
    merged: list[str] = []
    for symbol in row:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] = pair[0] + pair[1].removeprefix(prefix)
        else:
            merged.append(symbol)
    return merged
