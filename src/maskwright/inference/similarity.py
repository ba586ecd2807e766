"""Cosine similarity matrices of texts, or of one word in several sentences.

The static embedding of a word does not depend on the sentence; its contextual embedding does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import ConfigError, InputError, RowError, RowErrors
from ..text.readers.tables import Row
from ..text.words import find_word
from .embed import TextEncoder

Span = tuple[int, int]


@dataclass(frozen=True)
class TextOccurrence:
    """A text, or an occurrence of the word in it: `occurrence` of `count`, from 1; span: its characters."""

    text: str
    number: int
    occurrence: int | None = None
    count: int = 1
    span: Span | None = None

    @property
    def name(self) -> str:
        """Text number, with a suffix such as "#2" if the word occurs more than once."""
        return f"{self.number}#{self.occurrence}" if self.count > 1 else str(self.number)

    @property
    def shown(self) -> str:
        """The text with the word in brackets."""
        if self.span is None:
            return self.text
        start, end = self.span
        return f"{self.text[:start]}[{self.text[start:end]}]{self.text[end:]}"


@dataclass(frozen=True)
class Similarities:
    """Cosine similarities, float64 [places, places]; static: of the static embeddings, None for whole texts.

    skipped: number of texts without the word.
    """

    places: list[TextOccurrence]
    matrix: np.ndarray
    word: str | None = None
    static: np.ndarray | None = None
    skipped: int = 0

    def plane(self) -> tuple[np.ndarray, tuple[float, float]]:
        """Return a two-dimensional projection, float64 [places, 2], and the explained variance ratios.

        The first two principal components of the normalized embeddings, from their cosine similarities
        (Torgerson 1952); the largest coordinate of a component is positive.
        """
        count = len(self.matrix)
        center = np.eye(count) - 1 / count
        values, vectors = np.linalg.eigh(center @ self.matrix @ center)  # ascending
        strengths = np.maximum(np.pad(values[::-1], (0, 2))[:2], 0.0)
        axes = np.pad(vectors[:, ::-1], ((0, 0), (0, 2)))[:, :2]  # [places, 2]
        signs = np.where(axes[np.abs(axes).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
        shares = strengths / max(float(np.maximum(values, 0.0).sum()), 1e-12)
        return axes * signs * np.sqrt(strengths), (float(shares[0]), float(shares[1]))

    def to_json(self) -> dict[str, Any]:
        """Return the output of `embed --matrix --json`."""
        places: list[dict[str, Any]] = []
        for place in self.places:
            span = {} if place.span is None else {"start": place.span[0], "end": place.span[1]}
            places.append({"name": place.name, "text": place.text, **span})
        static = {} if self.static is None else {"static_matrix": self.static.tolist()}
        return {"word": self.word, "places": places, "matrix": self.matrix.tolist(), **static, "skipped": self.skipped}


def text_similarities(encoder: TextEncoder, texts: Sequence[str], batch_tokens: int | None = None) -> Similarities:
    """Return the cosine similarities of texts, with the encoder's pooling."""
    if not texts:
        raise InputError("No texts to compare: pass at least one text.")
    places = [TextOccurrence(text, number) for number, text in enumerate(texts, start=1)]
    return Similarities(places, cosine_matrix(encoder.vectors(list(texts), batch_tokens)))


def word_similarities(
    encoder: TextEncoder,
    rows: Sequence[Row],
    word: str,
    *,
    skip_missing: bool = False,
    batch_tokens: int | None = None,
) -> Similarities:
    """Return the cosine similarities of one word in the texts of `rows`, as the mean of its subword embeddings.

    encoder: with pooling "none". Every occurrence is a row of the matrix. Raises RowErrors for texts without the word,
    or with it only in the truncated part, unless `skip_missing`.
    """
    if not word.strip():
        raise ConfigError("--word is empty: specify the word to compare.")
    texts = [row.text for row in rows]
    encodings = encoder.tokenizer.encode_batch(texts, encoder.max_length)
    places: list[TextOccurrence] = []
    vectors: list[np.ndarray] = []
    statics: list[np.ndarray] = []
    bad: list[RowError] = []
    found = encoder.token_vectors(texts, batch_tokens)
    table = encoder.model.word_embeddings.detach()
    for number, (row, encoding, tokens) in enumerate(zip(rows, encodings, found, strict=True), start=1):
        spans = find_word(row.text, word.strip())
        tokens_of = [
            [
                index
                for index, ((start, end), source) in enumerate(
                    zip(encoding.offsets, encoding.sequence_ids, strict=True)
                )
                if source is not None and start < stop and end > begin
            ]
            for begin, stop in spans
        ]
        if not spans or not all(tokens_of):
            reason = f"'{word}' is after the maximum of {encoder.max_length} tokens" if spans else None
            bad.append(RowError(row.file, row.line, None, reason or f"'{word}' is not in '{row.text[:60]}'"))
            continue
        for occurrence, (span, indices) in enumerate(zip(spans, tokens_of, strict=True), start=1):
            places.append(TextOccurrence(row.text, number, occurrence, len(spans), span))
            vectors.append(tokens.vectors[indices].mean(axis=0))
            statics.append(table[[encoding.ids[index] for index in indices]].float().mean(dim=0).cpu().numpy())
    if bad and not skip_missing:
        raise RowErrors(bad)
    if not places:
        raise InputError(f"None of the texts contains the word '{word}'.")
    return Similarities(
        places, cosine_matrix(np.stack(vectors)), word, cosine_matrix(np.stack(statics)), skipped=len(bad)
    )


def cosine_matrix(vectors: np.ndarray) -> np.ndarray:
    """Return the cosine similarity matrix, float64 [rows, rows], of nonzero vectors, float [rows, size]."""
    exact = vectors.astype(np.float64)
    unit = exact / np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), 1e-12)
    matrix: np.ndarray = np.clip(unit @ unit.T, -1.0, 1.0)
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 1.0)
    return matrix
