"""What the ids of a tokenizer mean: tokens, roles, kind, and which pieces belong to one word."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import InputError
from .marian import MarianBackend
from .merges_files import TEXT_END
from .tokenizer_files import special_token_roles

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

END_OF_WORD = "</w>"

WORDPIECES = ("wordpiece", "wordpiece-score")


class Vocabulary:
    """Tokens and ids.

    backend: the library's tokenizer; config: its `tokenizer_config.json`; special_tokens: token of each role (unk,
    sep, pad, cls, mask) that it has.
    """

    def __init__(self, backend: Backend | MarianBackend, config: dict[str, Any] | None = None) -> None:
        self.backend = backend
        self.config = dict(config or {})
        self.special_tokens = special_token_roles(backend, self.config)

    def token_to_id(self, token: str) -> int | None:
        """Id of a token, None when the vocabulary lacks it."""
        return self.backend.token_to_id(token)

    def id_to_token(self, id: int) -> str | None:
        """Token of an id, None when there is none."""
        return self.backend.id_to_token(int(id))

    @cached_property
    def vocab_size(self) -> int:
        """Rows that an embedding needs: the highest id + 1."""
        return max(self.backend.get_vocab().values(), default=-1) + 1

    def __len__(self) -> int:
        return self.vocab_size

    @cached_property
    def tokens(self) -> list[str]:
        """Token of every id, "" for an id that no token has."""
        tokens = [""] * self.vocab_size
        for token, id in self.backend.get_vocab().items():
            tokens[id] = token
        return tokens

    def _role_id(self, role: str) -> int | None:
        token = self.special_tokens.get(role)
        return None if token is None else self.backend.token_to_id(token)

    @cached_property
    def cls_id(self) -> int | None:
        """Id of the token that opens a text; None where there is none."""
        return self._role_id("cls")

    @cached_property
    def sep_id(self) -> int | None:
        """Id of the token that closes a text; None where there is none."""
        return self._role_id("sep")

    @cached_property
    def mask_id(self) -> int | None:
        """Id of the mask; None where there is none."""
        return self._role_id("mask")

    @cached_property
    def pad_id(self) -> int | None:
        """Id of padding; None where there is none."""
        return self._role_id("pad")

    @cached_property
    def unk_id(self) -> int | None:
        """Id of the unknown token; None where there is none."""
        return self._role_id("unk")

    @cached_property
    def bos_id(self) -> int | None:
        """Id of the token that begins a text which grows: as configured, else what opens a text, else GPT-2's."""
        return self._growing_id("bos", ("cls", TEXT_END))

    @cached_property
    def eos_id(self) -> int | None:
        """Id of the token that ends a text which grows: as configured, else GPT-2's, else what closes a text."""
        return self._growing_id("eos", (TEXT_END, "sep"))

    def _growing_id(self, role: str, others: tuple[str, ...]) -> int | None:
        """The id that `tokenizer_config.json` gives a role, else the first of other roles or tokens that is there."""
        configured = self.config.get(f"{role}_token")
        token = configured.get("content") if isinstance(configured, dict) else configured
        candidates = [token, *(self.special_tokens.get(other, other) for other in others)]
        found = (self.backend.token_to_id(one) for one in candidates if isinstance(one, str))
        return next((id for id in found if id is not None), None)

    @cached_property
    def language_codes(self) -> tuple[str, ...]:
        """The languages that a source can ask for as Marian's do, >>fr<<; none in any other tokenizer."""
        return tuple(self.backend.codes) if isinstance(self.backend, MarianBackend) else ()

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids that stand for no text: those of the roles and every token marked special."""
        added = self.backend.get_added_tokens_decoder().items()
        roles = (self.backend.token_to_id(token) for token in self.special_tokens.values())
        return frozenset({id for id, token in added if token.special} | {id for id in roles if id is not None})

    @property
    def facts(self) -> dict[str, Any]:
        """What is known of the training: kind, settings, texts, words; empty for a tokenizer made elsewhere."""
        return self.config.get("maskwright", {})

    @cached_property
    def kind(self) -> str:
        """What it is: as trained here, else wordpiece, byte-bpe, bpe, word or unigram, by its model."""
        if named := self.facts.get("kind"):
            return named
        model = type(self.backend.model).__name__
        if model == "BPE" and not isinstance(self.backend, MarianBackend):
            return "byte-bpe" if "ByteLevel" in repr(self.backend.pre_tokenizer) else "bpe"
        return {"WordPiece": "wordpiece", "WordLevel": "word"}.get(model, model.lower())

    def continues_word(self) -> np.ndarray:
        """Which pieces go on with the word before them: bool [vocab].

        Said by the piece itself in WordPiece (##) and byte-level BPE (no leading space, and not punctuation); whole
        words never do. Raises InputError for kinds whose pieces do not tell (bpe marks the end of a word, char
        nothing): ask `word_starts`, which looks at the neighbours.
        """
        if self.kind not in (*WORDPIECES, "byte-bpe", "word"):
            raise InputError(f"A piece of a '{self.kind}' vocabulary does not tell whether it continues a word.")
        return self._continues

    def word_starts(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Where words begin in a row of ids: bool [tokens]; a special token is a word of its own."""
        ids = np.asarray(ids, dtype=np.int64)
        is_text = self._is_text[ids]
        starts = ~self._continues[ids] | ~is_text
        if self.kind == "bpe":
            starts[1:] = self._ends_word[ids[:-1]] | ~is_text[1:]
        elif self.kind == "char":
            starts[1:] = self._ends_word[ids[:-1]] | self._ends_word[ids[1:]] | ~is_text[1:]
        starts[:1] = True
        starts[1:] |= ~is_text[:-1]
        return starts

    @cached_property
    def _continues(self) -> np.ndarray:
        if self.kind == "byte-bpe":
            return np.array([_continues_bytes(token) for token in self.tokens]) & self._is_text
        if self.kind not in WORDPIECES:
            return np.zeros(self.vocab_size, dtype=bool)
        prefix = self.backend.model.continuing_subword_prefix
        return np.array([token.startswith(prefix) for token in self.tokens]) & self._is_text

    @cached_property
    def _ends_word(self) -> np.ndarray:
        """Pieces after which a word begins: those with the end-of-word symbol, or the space of a char vocabulary."""
        end = " " if self.kind == "char" else END_OF_WORD
        return np.array([token.endswith(end) for token in self.tokens])

    @cached_property
    def _is_text(self) -> np.ndarray:
        """Which ids stand for text: bool [vocab]."""
        is_text = np.ones(self.vocab_size, dtype=bool)
        is_text[list(self.special_ids)] = False
        return is_text


def _continues_bytes(token: str) -> bool:
    """A byte-level piece that neither begins with white space nor is punctuation goes on with a word."""
    first = token[:1]
    return bool(first) and first not in "ĠĊĉč" and (first.isalnum() or ord(first) > 0x7F)
