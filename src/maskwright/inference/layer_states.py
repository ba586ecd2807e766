"""Hidden states of one text at every layer, with norms, changes and similarities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.errors import InputError
from ..models.model import Model
from ..text.readers.inputs import Text
from .embed import TextEncoder


@dataclass(frozen=True)
class LayerStates:
    """Hidden states of a text.

    tokens: subword tokens; words, spans: word of each token and its character offsets ("" and (0, 0) for special
    tokens); states: embeddings first, float32 [layers + 1, tokens, hidden]; num_truncated: tokens beyond the maximum.
    """

    tokens: list[str]
    words: list[str]
    spans: list[tuple[int, int]]
    states: np.ndarray
    num_truncated: int = 0

    def norms(self) -> np.ndarray:
        """Return the L2 norms: float64 [layers + 1, tokens]."""
        norms: np.ndarray = np.linalg.norm(self.states.astype(np.float64), axis=-1)
        return norms

    def changes(self) -> np.ndarray:
        """Return 1 - cosine similarity to the previous layer: float64 [layers, tokens]."""
        unit = self._unit()
        changes: np.ndarray = 1.0 - (unit[1:] * unit[:-1]).sum(axis=-1)
        return changes

    def similarities(self, token: int) -> np.ndarray:
        """Return the cosine similarity to one token in the same layer: float64 [layers + 1, tokens].

        Raises InputError if the token index is out of range.
        """
        if not 0 <= token < len(self.tokens):
            raise InputError(f"Token {token} does not exist: the text has tokens 0 to {len(self.tokens) - 1}.")
        unit = self._unit()
        cosines: np.ndarray = np.clip((unit * unit[:, [token]]).sum(axis=-1), -1.0, 1.0)
        return cosines

    def _unit(self) -> np.ndarray:
        """Return the normalized states: float64 [layers + 1, tokens, hidden]."""
        wide = self.states.astype(np.float64)
        unit: np.ndarray = wide / np.maximum(np.linalg.norm(wide, axis=-1, keepdims=True), 1e-12)
        return unit


def layer_states(model: Model, text: Text, max_length: int | None = None) -> LayerStates:
    """Return the hidden states of one text or pair. max_length: maximum tokens, None for all."""
    count = model.config.num_hidden_layers + 1
    encoder = TextEncoder(model, list(range(count)), pooling="none", max_length=max_length)
    found = next(encoder.token_vectors([text]))
    states = found.vectors.reshape(len(found.tokens), count, -1).transpose(1, 0, 2)  # [layers + 1, tokens, hidden]
    return LayerStates(found.tokens, found.words, found.spans, states, encoder.counts.cut_tokens)
