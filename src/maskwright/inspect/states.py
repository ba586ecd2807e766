"""The vectors of a text's tokens in every layer: how they change, which of them are near, and a map in two dimensions.

Layer 0 is the embeddings, layers 1 to n are those of the network, as everywhere (`inference.layers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..core.errors import InputError
from ..inference.embed import TextEncoder, TokenVectors
from ..inference.layers import choose_layers
from ..models.model import Model
from ..text.inputs import Text
from ..text.words import find_word
from .reading import Reading, read
from .tokens import Tokens


@dataclass(frozen=True, eq=False)
class States:
    """Hidden states of one text. tokens: of the source, or of the target for a decoder; vectors: float32 [layers + 1,
    tokens, hidden], the embeddings first.
    """

    tokens: Tokens
    vectors: np.ndarray

    @property
    def norms(self) -> np.ndarray:
        """Length of each vector: float32 [layers + 1, tokens]."""
        norms: np.ndarray = np.linalg.norm(self.vectors, axis=-1)
        return norms

    @property
    def steps(self) -> np.ndarray:
        """Cosine of each token's vector with its own one layer before: float64 [layers, tokens]; 1 for no turn."""
        unit = _unit(self.vectors)
        steps: np.ndarray = (unit[1:] * unit[:-1]).sum(axis=-1)
        return steps

    def similarities(self, layer: int) -> np.ndarray:
        """Cosines of all tokens in a layer: float64 [tokens, tokens]. layer: from 0; negative ones count from the last.

        Raises ConfigError for a layer that is not there.
        """
        unit = _unit(self.of(layer))
        cosines: np.ndarray = unit @ unit.T
        return cosines

    def of(self, layers: str | int | Sequence[int]) -> np.ndarray:
        """Vectors of layers as `embed` names them ("last", "concat-last-4", 3): float32 [tokens, size]."""
        chosen = choose_layers(layers, len(self.vectors) - 1)
        return chosen.apply([torch.from_numpy(layer) for layer in self.vectors]).numpy()

    def plane(self, layer: int) -> np.ndarray:
        """The tokens in the plane of a layer's first two principal components: float64 [tokens, 2]."""
        return plane(self.of(layer))[0]

    def to_json(self) -> dict[str, Any]:
        """{"tokens", "norms", "steps"}: by layer, and in it by token."""
        return {
            "tokens": list(self.tokens.labels),
            "norms": np.round(self.norms.astype(np.float64), 4).tolist(),
            "steps": np.round(self.steps, 4).tolist(),
        }


def hidden_states(
    model: Model, text: Text, *, target: str | None = None, max_length: int | None = None, beams: int = 1
) -> States:
    """The vectors of a text's tokens in every layer; of an encoder-decoder those of the source.

    Arguments as `read` takes them; `states_of(reading, side="decoder")` has those of the target.
    """
    return states_of(read(model, text, target=target, max_length=max_length, beams=beams))


def states_of(reading: Reading, side: str = "encoder") -> States:
    """The same for a text that was read. side: "encoder", or "decoder" for the target."""
    with torch.inference_mode():
        encoded, decoded = reading.run()
    found, tokens = encoded.hidden_states, reading.source
    if side == "decoder":
        if decoded is None or reading.target is None:
            raise InputError("This model has no decoder: it has the states of its one text.")
        found, tokens = decoded.hidden_states, reading.target
    assert found is not None, "the pass was asked for hidden states"
    return States(tokens, torch.stack([layer.float().cpu() for layer in found]).numpy())


# -- words in the sentences of others --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Neighbour:
    """A word near another one. word; text: the number from 0 of the text it stands in; start, end: its characters
    there; cosine: of both vectors.
    """

    word: str
    text: int
    start: int
    end: int
    cosine: float


@dataclass(frozen=True, eq=False)
class WordMap:
    """Words in context, in a plane. words, texts, spans: what each is and where it stands; places: float64 [words, 2],
    the first two principal components; shares: of the variance, that each of the two holds.
    """

    words: tuple[str, ...]
    texts: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    places: np.ndarray
    shares: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """{"shares", "words": [{"word", "text", "start", "end", "x", "y"}]}."""
        rows = zip(self.words, self.texts, self.spans, self.places.tolist(), strict=True)
        words = [
            {"word": word, "text": text, "start": start, "end": end, "x": x, "y": y}
            for word, text, (start, end), (x, y) in rows
        ]
        return {"shares": list(self.shares), "words": words}


def neighbours(
    model: Model,
    text: str,
    word: str,
    others: Sequence[str],
    *,
    layers: str | int | Sequence[int] = "last",
    top: int = 10,
) -> list[Neighbour]:
    """The words of other texts whose vectors are the nearest to that of a word in its sentence, nearest first.

    A word's vector is the mean of its pieces' vectors. layers: as `embed` names them; top: how many. Raises InputError
    for a word that is not in the text, and where there are no other words.
    """
    encoder = TextEncoder(model, layers, pooling="none")
    first, *found = (one.by_word() for one in encoder.token_vectors([text, *others]))
    own = [row for span in find_word(text, word) for row in _rows_in(first, span)]
    if not own:
        raise InputError(f"'{word}' is no word of '{text[:60]}'.")
    if not any(len(one.words) for one in found):
        raise InputError("There are no other texts to look for neighbours in.")
    asked = _unit(first.vectors[own].mean(axis=0))
    cosines = [_unit(one.vectors) @ asked for one in found]
    flat = np.concatenate(cosines)
    places = [(number, row) for number, one in enumerate(found) for row in range(len(one.words))]
    order = np.argsort(-flat, kind="stable")[:top]
    nearest = []
    for index in order.tolist():
        number, row = places[index]
        start, end = found[number].spans[row]
        nearest.append(Neighbour(found[number].words[row], number, start, end, float(flat[index])))
    return nearest


def word_map(
    model: Model, texts: Sequence[str], word: str | None = None, *, layers: str | int | Sequence[int] = "last"
) -> WordMap:
    """The words of texts by their vectors in context, in a plane. word: this one alone, wherever it stands.

    Raises InputError for fewer than three places.
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
        what = "words" if word is None else f"places of '{word}'"
        raise InputError(f"A map needs three {what} or more; here are {len(vectors)}.")
    places, shares = plane(np.stack(vectors))
    return WordMap(tuple(words), tuple(numbers), tuple(spans), places, shares)


def plane(vectors: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    """Vectors in the plane of their first two principal components: float64 [rows, 2], and the shares of variance.

    vectors: float [rows, size]. Signs are fixed: the largest entry of each component is positive.
    """
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    _, lengths, axes = np.linalg.svd(centred, full_matrices=False)
    axes, lengths = axes[:2], lengths.copy()
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
    places = centred @ (axes * np.where(signs == 0, 1, signs)[:, None]).T
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
