"""How near texts are in meaning, or one word in several sentences: the matrix of cosines of their vectors.

A word has one vector in the embedding table, whatever the sentence (a type); what an encoder makes of it differs with
the sentence (a token). Both matrices are computed, so that they can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import ConfigError, InputError, RowError, RowErrors
from ..text.encoding import Encoding
from ..text.tables import Row
from ..text.words import find_word
from .embed import TextEncoder

Span = tuple[int, int]


@dataclass(frozen=True)
class Place:
    """A row of the matrix: a text with its number from 1, and which occurrence of the word it is (None: the text).

    count: occurrences of the word in the text; span: start and end character of this one.
    """

    text: str
    number: int
    occurrence: int | None = None
    count: int = 1
    span: Span | None = None

    @property
    def name(self) -> str:
        """The number, with "#2" for the second occurrence of a word that stands there more than once."""
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
    """matrix: cosines, float64 [places, places], ones on the diagonal; static: the same of the word's vectors in the
    embedding table, without context and position (None where whole texts are compared); skipped: texts left out,
    because the word is not in them.
    """

    places: list[Place]
    matrix: np.ndarray
    word: str | None = None
    static: np.ndarray | None = None
    skipped: int = 0

    def plane(self) -> tuple[np.ndarray, tuple[float, float]]:
        """The places in two dimensions, float64 [places, 2], and the shares of the variance that each holds.

        These are the first two principal components of the vectors at length 1, found from their cosines alone
        (Torgerson 1952). A component's largest coordinate is positive.
        """
        count = len(self.matrix)
        centre = np.eye(count) - 1 / count
        values, vectors = np.linalg.eigh(centre @ self.matrix @ centre)  # ascending
        strengths = np.maximum(np.pad(values[::-1], (0, 2))[:2], 0.0)
        axes = np.pad(vectors[:, ::-1], ((0, 0), (0, 2)))[:, :2]  # [places, 2]
        signs = np.where(axes[np.abs(axes).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
        shares = strengths / max(float(np.maximum(values, 0.0).sum()), 1e-12)
        return axes * signs * np.sqrt(strengths), (float(shares[0]), float(shares[1]))

    def to_json(self) -> dict[str, Any]:
        """What `similarity --json` prints."""
        places = [
            {
                "name": place.name,
                "text": place.text,
                **({} if place.span is None else {"start": place.span[0], "end": place.span[1]}),
            }
            for place in self.places
        ]
        found: dict[str, Any] = {"word": self.word, "places": places, "matrix": self.matrix.tolist()}
        if self.static is not None:
            found["static_matrix"] = self.static.tolist()
        return found | {"skipped": self.skipped}


def text_similarities(encoder: TextEncoder, texts: Sequence[str], batch_tokens: int | None = None) -> Similarities:
    """The cosines of whole texts, by the encoder's pooling."""
    if not texts:
        raise InputError("There is no text to compare.")
    places = [Place(text, number) for number, text in enumerate(texts, start=1)]
    return Similarities(places, cosine_matrix(encoder.vectors(list(texts), batch_tokens)))


def word_similarities(
    encoder: TextEncoder,
    rows: Sequence[Row],
    word: str,
    *,
    skip_missing: bool = False,
    batch_tokens: int | None = None,
) -> Similarities:
    """The cosines of one word's vectors over the texts of `rows`; a word's vector is the mean of its pieces' vectors.

    encoder: with pooling "none". A text that holds the word twice gives two places. Raises RowErrors with every text
    that lacks the word, or has it only beyond the cut, unless `skip_missing`.
    """
    if not word.strip():
        raise ConfigError("--word is empty: give the word to compare.")
    texts = [row.text for row in rows]
    encodings = encoder.tokenizer.encode_batch(texts, encoder.max_length)
    places: list[Place] = []
    vectors: list[np.ndarray] = []
    statics: list[np.ndarray] = []
    bad: list[RowError] = []
    found = encoder.token_vectors(texts, batch_tokens)
    table = encoder.model.word_embeddings.detach()
    for number, (row, encoding, tokens) in enumerate(zip(rows, encodings, found, strict=True), start=1):
        spans = find_word(row.text, word.strip())
        pieces = [_pieces_in(encoding, span) for span in spans]
        if not spans or not all(pieces):
            reason = f"'{word}' stands beyond the {encoder.max_length} tokens that are read" if spans else None
            bad.append(RowError(row.file, row.line, None, reason or f"'{word}' is not in '{row.text[:60]}'"))
            continue
        for occurrence, (span, own) in enumerate(zip(spans, pieces, strict=True), start=1):
            places.append(Place(row.text, number, occurrence, len(spans), span))
            vectors.append(tokens.vectors[own].mean(axis=0))
            statics.append(table[[encoding.ids[index] for index in own]].float().mean(dim=0).cpu().numpy())
    if bad and not skip_missing:
        raise RowErrors(bad)
    if not places:
        raise InputError(f"None of the texts holds the word '{word}'.")
    return Similarities(
        places, cosine_matrix(np.stack(vectors)), word, cosine_matrix(np.stack(statics)), skipped=len(bad)
    )


def cosine_matrix(vectors: np.ndarray) -> np.ndarray:
    """Symmetric, with ones on the diagonal: float64 [rows, rows]. vectors: float [rows, size], none of them 0."""
    exact = vectors.astype(np.float64)
    unit = exact / np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), 1e-12)
    matrix = np.clip(unit @ unit.T, -1.0, 1.0)
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 1.0)
    return matrix


def _pieces_in(encoding: Encoding, span: Span) -> list[int]:
    """The tokens that overlap a stretch of the text."""
    return [
        index
        for index, ((start, end), source) in enumerate(zip(encoding.offsets, encoding.sequence_ids, strict=True))
        if source is not None and start < span[1] and end > span[0]
    ]
