"""Compares the layers and attention heads of two models or checkpoints on the same texts.

Layers are compared by linear centered kernel alignment (CKA; Kornblith et al. 2019, equation 1), which is invariant to
rotation, scale and width; heads by the total variation distance between their attention distributions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..models.model import Model
from ..text.readers.inputs import Text
from .attention import attention_of
from .reading import TokenizedText, read
from .reasons import Reasons
from .states import states_of

# -- Differences between two explained answers: of two texts, or of two models or checkpoints for a text -------------


SHOWN = 12  # answers


def differences(first: Reasons, second: Reasons) -> dict[str, Any]:
    """Compare two explained answers.

    Returns {"answers": [{"answer", "first", "second"}], "words": [{"word", "first", "second"}]}: the answers with the
    largest difference of their scores first, None for one that a model does not know; the words in their order, aligned
    by their letters, with their scores of occlusion for the explained answer of their side, None without a partner.
    """
    names = dict.fromkeys(name for one in (first, second) for name, _ in one.answers)
    scores = [(name, first.score_of(name), second.score_of(name)) for name in names]
    scores.sort(key=lambda row: -abs((row[2] or 0.0) - (row[1] or 0.0)))
    rows = [{"answer": name, "first": before, "second": after} for name, before, after in scores[:SHOWN]]
    return {"answers": rows, "words": _aligned(first, second)}


def _aligned(first: Reasons, second: Reasons) -> list[dict[str, Any]]:
    own, other = ([(one.text, one.word.lower()) for one in reasons.words] for reasons in (first, second))
    pairs: list[tuple[int | None, int | None]] = []
    for name, start, end, begin, stop in SequenceMatcher(None, own, other, autojunk=False).get_opcodes():
        if name == "equal" or (name == "replace" and end - start == stop - begin):
            pairs += zip(range(start, end), range(begin, stop), strict=True)
        else:
            pairs += [*((place, None) for place in range(start, end)), *((None, place) for place in range(begin, stop))]
    return [_row(first, second, *pair) for pair in pairs]


def _row(first: Reasons, second: Reasons, here: int | None, there: int | None) -> dict[str, Any]:
    sides = [(one, place) for one, place in ((first, here), (second, there)) if place is not None]
    words = dict.fromkeys(one.words[place].word for one, place in sides)

    def score(one: Reasons, place: int | None) -> float | None:
        return None if place is None else float(one.attributions["occlusion"][place])

    return {"word": " / ".join(words), "first": score(first, here), "second": score(second, there)}


@dataclass(frozen=True, eq=False)
class ModelComparison:
    """Similarity of two models.

    layers: CKA from 0 to 1, embeddings first, float64 [layers + 1 of the first, layers + 1 of the second]; heads: mean
    total variation distance from 0 (same) to 1, float64 [layers, heads, layers of the second, heads of the second];
    num_tokens, num_texts: size of the comparison.
    """

    layers: np.ndarray
    heads: np.ndarray
    num_tokens: int
    num_texts: int

    @property
    def same_place(self) -> np.ndarray:
        """Distance of each head to the head with the same number: float64 [layers, heads].

        Raises InputError for models of different sizes.
        """
        if self.heads.shape[:2] != self.heads.shape[2:]:
            raise InputError("The models have different numbers of layers or heads: use the nearest heads instead.")
        layers, heads = self.heads.shape[:2]
        rows, columns = np.meshgrid(np.arange(layers), np.arange(heads), indexing="ij")
        own: np.ndarray = self.heads[rows, columns, rows, columns]
        return own

    def nearest(self, layer: int, head: int) -> tuple[int, int, float]:
        """Return the closest head of the second model: layer, head, distance. Numbers from 1."""
        own = self.heads[layer - 1, head - 1]
        row, column = np.unravel_index(int(own.argmin()), own.shape)
        return int(row) + 1, int(column) + 1, float(own[row, column])

    def to_json(self) -> dict[str, Any]:
        """Return {"texts", "tokens", "layers", "heads": [{"layer", "head", "nearest": {...}, "same_place"}]}."""
        is_same = self.heads.shape[:2] == self.heads.shape[2:]
        heads = []
        for layer in range(1, self.heads.shape[0] + 1):
            for head in range(1, self.heads.shape[1] + 1):
                near = dict(zip(("layer", "head", "distance"), self.nearest(layer, head), strict=True))
                own = {"same_place": float(self.same_place[layer - 1, head - 1])} if is_same else {}
                heads.append({"layer": layer, "head": head, "nearest": near, **own})
        sizes = {"texts": self.num_texts, "tokens": self.num_tokens}
        return {**sizes, "layers": np.round(self.layers, 4).tolist(), "heads": heads}


def compare_models(
    first: Model, second: Model, texts: Sequence[Text], *, max_length: int | None = None
) -> ModelComparison:
    """Compare two models on texts that both tokenize identically.

    For an encoder-decoder, the encoder is compared. Use many texts: with fewer tokens than dimensions, CKA is high for
    any two models. Raises InputError for no texts, and for different tokens.
    """
    if not texts:
        raise InputError("No texts to compare the models on: pass at least one text.")
    return compare_readings([(_source(first, text, max_length), _source(second, text, max_length)) for text in texts])


def compare_readings(pairs: Sequence[tuple[TokenizedText, TokenizedText]]) -> ModelComparison:
    """Compare two models on texts that were read by both."""
    vectors: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    distances, counts = [], []
    for first, second in pairs:
        if first.source.subwords != second.source.subwords:
            raise InputError(
                f"The models tokenize '{first.source.text[:60]}' differently, so their attention cannot be compared: "
                "use models with the same tokenizer."
            )
        for own, reading in zip(vectors, (first, second), strict=True):
            own.append(states_of(reading).vectors)
        distances.append(_distances(first, second))
        counts.append(len(first.source))
    states = [np.concatenate(own, axis=1).astype(np.float64) for own in vectors]  # [layers + 1, tokens, hidden]
    layers = np.array([[alignment(one, other) for other in states[1]] for one in states[0]])
    heads = np.average(np.stack(distances), axis=0, weights=counts)
    return ModelComparison(layers, heads, sum(counts), len(pairs))


def alignment(first: np.ndarray, second: np.ndarray) -> float:
    """Return the linear centered kernel alignment of two sets of vectors of the same tokens: 0 to 1.

    first: float [tokens, size]; second: float [tokens, other size].
    """
    one, other = (vectors - vectors.mean(axis=0) for vectors in (first, second))
    both = float(np.linalg.norm(one.T @ other) ** 2)
    sizes = float(np.linalg.norm(one.T @ one) * np.linalg.norm(other.T @ other))
    return both / sizes if sizes > 0 else 0.0


def _source(model: Model, text: Text, max_length: int | None) -> TokenizedText:
    """Read the text; an encoder-decoder gets an empty target."""
    if model.has_decoder:
        return read(model, text, target="", max_length=max_length)
    return read(model, text, max_length=max_length)


def _distances(first: TokenizedText, second: TokenizedText) -> np.ndarray:
    """Return the mean total variation distance of all pairs of heads: float64 [layers, heads, layers, heads]."""
    one, other = (attention_of(reading).maps[0].weights for reading in (first, second))
    found = np.empty((*one.shape[:2], *other.shape[:2]))
    for layer, heads in enumerate(one):
        for head, weights in enumerate(heads):
            found[layer, head] = 0.5 * np.abs(other - weights).sum(axis=-1, dtype=np.float64).mean(axis=-1)
    return found
