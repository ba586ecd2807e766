"""Hidden states of every layer: norms, changes, nearest neighbors and a two-dimensional projection.

Layer 0 is the embeddings, layers 1 to n are those of the model (`inference.embed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..core.errors import InputError
from ..inference.embed import TextEncoder, TokenVectors, choose_layers
from ..models.model import Model
from ..text.readers.inputs import Text
from ..text.words import find_word
from .reading import TokenizedText, read
from .tokens import Tokens


@dataclass(frozen=True, eq=False)
class States:
    """Hidden states of one text.

    tokens: of the source, or of the target for a decoder; vectors: embeddings first, float32 [layers + 1, tokens,
    hidden].
    """

    tokens: Tokens
    vectors: np.ndarray

    @property
    def norms(self) -> np.ndarray:
        """L2 norms: float32 [layers + 1, tokens]."""
        norms: np.ndarray = np.linalg.norm(self.vectors, axis=-1)
        return norms

    @property
    def steps(self) -> np.ndarray:
        """Cosine similarity of each token to its previous layer: float64 [layers, tokens]."""
        unit = _unit(self.vectors)
        steps: np.ndarray = (unit[1:] * unit[:-1]).sum(axis=-1)
        return steps

    def similarities(self, layer: int) -> np.ndarray:
        """Return the cosine similarities of all tokens in a layer: float64 [tokens, tokens].

        layer: from 0; negative numbers count from the last. Raises ConfigError for a layer out of range.
        """
        unit = _unit(self.of(layer))
        cosines: np.ndarray = unit @ unit.T
        return cosines

    def of(self, layers: str | int | Sequence[int]) -> np.ndarray:
        """Return the embeddings of layers as in `embed` ("last", "concat-last-4", 3): float32 [tokens, size]."""
        chosen = choose_layers(layers, len(self.vectors) - 1)
        return chosen.apply([torch.from_numpy(layer) for layer in self.vectors]).numpy()

    def plane(self, layer: int) -> np.ndarray:
        """Project the tokens on a layer's first two principal components: float64 [tokens, 2]."""
        return plane(self.of(layer))[0]

    def to_json(self) -> dict[str, Any]:
        """Return {"tokens", "norms", "steps"}, by layer and token."""
        return {
            "tokens": list(self.tokens.labels),
            "norms": np.round(self.norms.astype(np.float64), 4).tolist(),
            "steps": np.round(self.steps, 4).tolist(),
        }


def hidden_states(
    model: Model, text: Text, *, target: str | None = None, max_length: int | None = None, beams: int = 1
) -> States:
    """Return the hidden states of a text; for an encoder-decoder those of the source.

    Arguments as in `read`; `states_of(reading, side="decoder")` returns those of the target.
    """
    return states_of(read(model, text, target=target, max_length=max_length, beams=beams))


def states_of(reading: TokenizedText, side: str = "encoder") -> States:
    """Return the hidden states of a text that was read. side: "encoder", or "decoder" for the target."""
    with torch.inference_mode():
        encoded, decoded = reading.run()
    found, tokens = encoded.hidden_states, reading.source
    if side == "decoder":
        if decoded is None or reading.target is None:
            raise InputError("This model has no decoder: use side 'encoder'.")
        found, tokens = decoded.hidden_states, reading.target
    assert found is not None, "the pass was asked for hidden states"
    return States(tokens, torch.stack([layer.float().cpu() for layer in found]).numpy())


# -- words in context ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Neighbor:
    """A nearest neighbor. text: index of its text from 0; start, end: characters; cosine: cosine similarity."""

    word: str
    text: int
    start: int
    end: int
    cosine: float


@dataclass(frozen=True, eq=False)
class WordMap:
    """Projection of words in context.

    words, texts, spans: each word, its text index and characters; places: first two principal components, float64
    [words, 2]; shares: explained variance ratios.
    """

    words: tuple[str, ...]
    texts: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    places: np.ndarray
    shares: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """Return {"shares", "words": [{"word", "text", "start", "end", "x", "y"}]}."""
        rows = zip(self.words, self.texts, self.spans, self.places.tolist(), strict=True)
        words = [
            {"word": word, "text": text, "start": start, "end": end, "x": x, "y": y}
            for word, text, (start, end), (x, y) in rows
        ]
        return {"shares": list(self.shares), "words": words}


def neighbors(
    model: Model,
    text: str,
    word: str,
    others: Sequence[str],
    *,
    layers: str | int | Sequence[int] = "last",
    top: int = 10,
) -> list[Neighbor]:
    """Return the words of other texts that are closest to a word in its sentence, closest first.

    Word embeddings are the mean of their subword tokens. layers: as in `embed`; top: number of results. Raises
    InputError for a word that is not in the text, and if there are no other words.
    """
    encoder = TextEncoder(model, layers, pooling="none")
    first, *found = (one.by_word() for one in encoder.token_vectors([text, *others]))
    own = [row for span in find_word(text, word) for row in _rows_in(first, span)]
    if not own:
        raise InputError(f"'{word}' is not in '{text[:60]}'.")
    if not any(len(one.words) for one in found):
        raise InputError("No other texts to search: pass at least one.")
    asked = _unit(first.vectors[own].mean(axis=0))
    cosines = [_unit(one.vectors) @ asked for one in found]
    flat = np.concatenate(cosines)
    places = [(number, row) for number, one in enumerate(found) for row in range(len(one.words))]
    order = np.argsort(-flat, kind="stable")[:top]
    nearest = []
    for index in order.tolist():
        number, row = places[index]
        start, end = found[number].spans[row]
        nearest.append(Neighbor(found[number].words[row], number, start, end, float(flat[index])))
    return nearest


def word_map(
    model: Model, texts: Sequence[str], word: str | None = None, *, layers: str | int | Sequence[int] = "last"
) -> WordMap:
    """Project the contextual word embeddings of texts to two dimensions. word: only this word.

    Raises InputError for fewer than three occurrences.
    """
    encoder = TextEncoder(model, layers, pooling="none")
    words, numbers, spans, vectors = [], [], [], []
    for number, found in enumerate(one.by_word() for one in encoder.token_vectors(list(texts))):
        rows: Sequence[int] = range(len(found.words))
        if word is not None:
            rows = [row for span in find_word(texts[number], word) for row in _rows_in(found, span)]
        for row in rows:
            words.append(found.words[row])
            numbers.append(number)
            spans.append(found.spans[row])
            vectors.append(found.vectors[row])
    if len(vectors) < 3:
        what = "words" if word is None else f"occurrences of '{word}'"
        raise InputError(f"A map requires at least three {what}, not {len(vectors)}.")
    places, shares = plane(np.stack(vectors))
    return WordMap(tuple(words), tuple(numbers), tuple(spans), places, shares)


def plane(vectors: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    """Project vectors on their first two principal components: float64 [rows, 2], and explained variance ratios.

    vectors: float [rows, size]. The largest entry of each component is positive.
    """
    centered = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    _, lengths, axes = np.linalg.svd(centered, full_matrices=False)
    axes, lengths = axes[:2], lengths.copy()
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
    places = centered @ (axes * np.where(signs == 0, 1, signs)[:, None]).T
    total = max(float((lengths**2).sum()), 1e-30)
    shares = [float(length**2) / total for length in lengths[:2]] + [0.0, 0.0]
    if places.shape[1] < 2:
        places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])))
    return places, (shares[0], shares[1])


def _rows_in(found: TokenVectors, span: tuple[int, int]) -> list[int]:
    return [row for row, (start, end) in enumerate(found.spans) if start < span[1] and end > span[0]]


def _unit(vectors: np.ndarray) -> np.ndarray:
    exact = vectors.astype(np.float64)
    unit: np.ndarray = exact / np.maximum(np.linalg.norm(exact, axis=-1, keepdims=True), 1e-12)
    return unit
