"""Tokenized documents in memory, with the interface of token shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class PlainTokenizer(Protocol):
    """The tokenizer method used here (text.tokenizer.Tokenizer)."""

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]: ...


class TextsInMemory:
    """Tokenized documents with the interface of token shards (data/shards.py).

    documents: the sentences of each, each int64 [tokens].
    """

    def __init__(self, documents: Sequence[Sequence[Sequence[int]]]) -> None:
        self._tokens = [np.array([id for own in document for id in own], dtype=np.int64) for document in documents]
        self._sentences = [np.array([len(own) for own in document], dtype=np.int64) for document in documents]

    @classmethod
    def encode(cls, documents: Sequence[Sequence[str]], tokenizer: PlainTokenizer) -> TextsInMemory:
        """Tokenizes the sentences of each document."""
        return cls([tokenizer.encode_plain(list(document)) for document in documents])

    def __len__(self) -> int:
        return len(self._tokens)

    def document_tokens(self, document: int) -> np.ndarray:
        """All tokens of a document: int64 [tokens]."""
        return self._tokens[document]

    def sentence_lengths_of(self, document: int) -> np.ndarray:
        """Number of tokens of each sentence of a document: int64 [sentences]."""
        return self._sentences[document]

    def document_lengths(self) -> np.ndarray:
        """Number of tokens of every document: int64 [documents]."""
        return np.array([len(tokens) for tokens in self._tokens], dtype=np.int64)
