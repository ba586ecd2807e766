"""Traces how a tokenizer segments one word: WordPiece lookups, or BPE merges in order.

WordPiece (Wu et al. 2016) takes the longest vocabulary entry at the start of the word, then continues after it. BPE
(Sennrich et al. 2016) starts from characters and repeatedly applies the merge learned earliest. The last step equals
the result of the `tokenizers` library, which tests check.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .marian import MarianBackend

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

MAX_CHARACTERS = 200


@dataclass(frozen=True)
class SegmentationStep:
    """One step.

    pieces: the word after the step; tried: subwords looked up but not in the vocabulary, longest first
    (WordPiece); taken: the subword found, or created by a merge; rank: number of the merge, from 1 (BPE).
    """

    pieces: list[str]  # terms: ok (JSON key)
    tried: list[str]
    taken: str | None
    rank: int | None = None


@dataclass(frozen=True)
class SegmentedWord:
    """A pre-tokenized word, its steps, and its final tokens."""

    word: str
    steps: list[SegmentationStep]
    tokens: list[str]


@dataclass(frozen=True)
class SegmentationTrace:
    """rule: "longest match", "merges", or "none" for kinds without steps; words: of the text, in order."""

    rule: str
    words: list[SegmentedWord]

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON-serializable dict."""
        return asdict(self)


class SegmentationTracer:
    """Traces the segmentation of one tokenizer; its tables are read once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        backend = tokenizer.backend  # Marian's segments the whole text at once
        self.library = None if isinstance(backend, MarianBackend) else backend
        model: dict[str, Any] = (
            {"type": "Unigram"} if self.library is None else json.loads(self.library.to_str())["model"]
        )
        is_merged = model["type"] == "BPE" and not model.get("byte_fallback") and not model.get("ignore_merges")
        self.rule = "longest match" if tokenizer.word_markers.words == "prefix" else "merges" if is_merged else "none"
        self.prefix = model.get("continuing_subword_prefix") or ""
        self.suffix = model.get("end_of_word_suffix") or ""
        self.longest = model.get("max_input_chars_per_word", MAX_CHARACTERS)
        self.ranks: dict[tuple[str, str], int] = {}
        for rank, merge in enumerate(model.get("merges", ()) if is_merged else (), start=1):
            left, right = merge.split(" ") if isinstance(merge, str) else merge
            self.ranks.setdefault((left, right), rank)

    def cut(self, text: str) -> SegmentationTrace:
        """Segment the words of a short text step by step; only the first `MAX_CHARACTERS` characters are used."""
        words = self._words(text[:MAX_CHARACTERS])
        if self.rule == "longest match":
            return SegmentationTrace(self.rule, [self._longest_match(word) for word in words])
        if self.rule == "merges":
            return SegmentationTrace(self.rule, [self._merges(word) for word in words])
        return SegmentationTrace(self.rule, [SegmentedWord(word, [], self._tokens(word)) for word in words])

    def _words(self, text: str) -> list[str]:
        """Returns the normalized and pre-tokenized words."""
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

    def _longest_match(self, word: str) -> SegmentedWord:
        steps: list[SegmentationStep] = []
        found: list[str] = []
        start = 0
        while start < len(word) <= self.longest:
            tried: list[str] = []
            for end in range(len(word), start, -1):
                piece = (self.prefix if start else "") + word[start:end]
                if self.tokenizer.token_to_id(piece) is not None:
                    break
                tried.append(piece)
            else:  # no match: the whole word is unknown
                steps.append(SegmentationStep([*found, word[start:]], tried, None))
                return SegmentedWord(word, steps, self._tokens(word))
            found.append(piece)
            steps.append(SegmentationStep([*found, *([word[end:]] if end < len(word) else [])], tried, piece))
            start = end
        return SegmentedWord(word, steps, self._tokens(word))

    def _merges(self, word: str) -> SegmentedWord:
        row = [*((self.prefix if index else "") + letter for index, letter in enumerate(word))]
        if row:
            row[-1] += self.suffix
        steps = [SegmentationStep(list(row), [], None)]
        while (best := self._first_merge(row)) is not None:
            row = _apply(row, best, self.prefix)
            taken = best[0] + best[1].removeprefix(self.prefix)
            steps.append(SegmentationStep(list(row), [], taken, self.ranks[best]))
        return SegmentedWord(word, steps, self._tokens(word))

    def _first_merge(self, row: Sequence[str]) -> tuple[str, str] | None:
        """Returns the adjacent pair that was learned first, or None if no merge applies."""
        known = [pair for pair in pairwise(row) if pair in self.ranks]
        return min(known, key=self.ranks.__getitem__, default=None)


def _apply(row: Sequence[str], pair: tuple[str, str], prefix: str) -> list[str]:
    """Returns the row with every occurrence of the pair merged, from left to right."""
    merged: list[str] = []
    for symbol in row:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] = pair[0] + pair[1].removeprefix(prefix)
        else:
            merged.append(symbol)
    return merged
