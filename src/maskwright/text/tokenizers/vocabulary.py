"""Vocabulary of a tokenizer: tokens, special-token roles, kind, and word boundaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...core.errors import InputError
from .marian import MarianBackend
from .merges_files import TEXT_END
from .tokenizer_files import special_token_roles

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

# -- How the tokens of each tokenizer kind mark word boundaries: the one table of what other code asks of a kind -----


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


END_OF_WORD = "</w>"


class Vocabulary:
    """Tokens and IDs.

    backend: the library's tokenizer; config: its `tokenizer_config.json`; special_tokens: role (unk, sep, pad, cls,
    mask) -> token, for roles that exist.
    """

    def __init__(self, backend: Backend | MarianBackend, config: dict[str, Any] | None = None) -> None:
        self.backend = backend
        self.config = dict(config or {})
        self.special_tokens = special_token_roles(backend, self.config)

    def token_to_id(self, token: str) -> int | None:
        """Returns the ID of a token, or None."""
        return self.backend.token_to_id(token)

    def id_to_token(self, id: int) -> str | None:
        """Returns the token of an ID, or None."""
        return self.backend.id_to_token(int(id))

    @cached_property
    def vocab_size(self) -> int:
        """Number of embedding rows required: the highest ID + 1."""
        return max(self.backend.get_vocab().values(), default=-1) + 1

    def __len__(self) -> int:
        return self.vocab_size

    @cached_property
    def tokens(self) -> list[str]:
        """Token of every ID, "" for an unused ID."""
        tokens = [""] * self.vocab_size
        for token, id in self.backend.get_vocab().items():
            tokens[id] = token
        return tokens

    def _role_id(self, role: str) -> int | None:
        token = self.special_tokens.get(role)
        return None if token is None else self.backend.token_to_id(token)

    @cached_property
    def cls_id(self) -> int | None:
        """ID of the token at the start of a text; None if there is none."""
        return self._role_id("cls")

    @cached_property
    def sep_id(self) -> int | None:
        """ID of the token at the end of a text; None if there is none."""
        return self._role_id("sep")

    @cached_property
    def mask_id(self) -> int | None:
        """ID of the mask token; None if there is none."""
        return self._role_id("mask")

    @cached_property
    def pad_id(self) -> int | None:
        """ID of the padding token; None if there is none."""
        return self._role_id("pad")

    @cached_property
    def unk_id(self) -> int | None:
        """ID of the unknown token; None if there is none."""
        return self._role_id("unk")

    @cached_property
    def bos_id(self) -> int | None:
        """ID of the token at the start of generated text: as configured, else cls, else GPT-2's."""
        return self._generation_id("bos", ("cls", TEXT_END))

    @cached_property
    def eos_id(self) -> int | None:
        """ID of the token at the end of generated text: as configured, else GPT-2's, else sep."""
        return self._generation_id("eos", (TEXT_END, "sep"))

    def _generation_id(self, role: str, others: tuple[str, ...]) -> int | None:
        """Returns the ID of a role in `tokenizer_config.json`, else of the first other role or token that exists."""
        configured = self.config.get(f"{role}_token")
        token = configured.get("content") if isinstance(configured, dict) else configured
        candidates = [token, *(self.special_tokens.get(other, other) for other in others)]
        found = (self.backend.token_to_id(one) for one in candidates if isinstance(one, str))
        return next((id for id in found if id is not None), None)

    @cached_property
    def language_codes(self) -> tuple[str, ...]:
        """Target languages selected by Marian codes such as >>fr<<; empty for any other tokenizer."""
        return tuple(self.backend.codes) if isinstance(self.backend, MarianBackend) else ()

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """IDs that are not text: those of the roles and every token marked special."""
        added = self.backend.get_added_tokens_decoder().items()
        roles = (self.backend.token_to_id(token) for token in self.special_tokens.values())
        return frozenset({id for id, token in added if token.special} | {id for id in roles if id is not None})

    @property
    def facts(self) -> dict[str, Any]:
        """Training metadata: kind, settings, texts, words; empty for a tokenizer from elsewhere."""
        return self.config.get("maskwright", {})

    @cached_property
    def kind(self) -> str:
        """The kind it was trained as, else wordpiece, byte-bpe, bpe, word or unigram, by its model."""
        if named := self.facts.get("kind"):
            return named
        model = type(self.backend.model).__name__
        if model == "BPE" and not isinstance(self.backend, MarianBackend):
            return "byte-bpe" if "ByteLevel" in repr(self.backend.pre_tokenizer) else "bpe"
        return {"WordPiece": "wordpiece", "WordLevel": "word"}.get(model, model.lower())

    @property
    def word_markers(self) -> WordMarkers:
        """How tokens of this kind mark word boundaries."""
        return WORD_MARKERS.get(self.kind, WordMarkers())

    def continues_word(self) -> np.ndarray:
        """Whether each subword continues the preceding word: bool [vocab].

        Determined by the subword itself in WordPiece (##) and byte-level BPE (no leading space, and not punctuation);
        always False for whole words. Raises InputError for kinds where it depends on neighboring tokens (bpe marks the
        end of a word, char nothing): use `word_starts`.
        """
        if self.word_markers.words not in ("prefix", "bytes", "whole"):
            raise InputError(f"A subword of a '{self.kind}' vocabulary does not show whether it continues a word.")
        return self._continues

    def word_starts(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Returns where words begin in a sequence of IDs: bool [tokens]; a special token is a separate word."""
        ids = np.asarray(ids, dtype=np.int64)
        is_text = self._is_text[ids]
        starts = ~self._continues[ids] | ~is_text
        words = self.word_markers.words
        if words == "suffix":
            starts[1:] = self._ends_word[ids[:-1]] | ~is_text[1:]
        elif words == "space":
            starts[1:] = self._ends_word[ids[:-1]] | self._ends_word[ids[1:]] | ~is_text[1:]
        starts[:1] = True
        starts[1:] |= ~is_text[:-1]
        return starts

    @cached_property
    def _continues(self) -> np.ndarray:
        words = self.word_markers.words
        if words == "bytes":
            return np.array([_continues_bytes(token) for token in self.tokens]) & self._is_text
        if words != "prefix":
            return np.zeros(self.vocab_size, dtype=bool)
        prefix = self.backend.model.continuing_subword_prefix
        return np.array([token.startswith(prefix) for token in self.tokens]) & self._is_text

    @cached_property
    def _ends_word(self) -> np.ndarray:
        """Tokens after which a word begins: those with the end-of-word symbol, or the space of a char vocabulary."""
        end = " " if self.word_markers.words == "space" else END_OF_WORD
        return np.array([token.endswith(end) for token in self.tokens])

    @cached_property
    def _is_text(self) -> np.ndarray:
        """Whether each ID is text: bool [vocab]."""
        is_text = np.ones(self.vocab_size, dtype=bool)
        is_text[list(self.special_ids)] = False
        return is_text


def _continues_bytes(token: str) -> bool:
    """Whether a byte-level token continues a word: it neither begins with whitespace nor is punctuation."""
    first = token[:1]
    return bool(first) and first not in "ĠĊĉč" and (first.isalnum() or ord(first) > 0x7F)
