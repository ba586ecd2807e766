"""One text, layer by layer: the vector of every token behind each layer, and what may be asked of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.errors import InputError
from ..models.model import Model
from ..text.inputs import Text
from .embed import TextEncoder


@dataclass(frozen=True)
class LayerStates:
    """tokens: the pieces that the encoder read; words, spans: the word of each and where it stands ("" and (0, 0) for
    special tokens); states: float32 [layers + 1, tokens, hidden], the embeddings first.
    """

    tokens: list[str]
    words: list[str]
    spans: list[tuple[int, int]]
    states: np.ndarray

    def norms(self) -> np.ndarray:
        """The length of each vector: float64 [layers + 1, tokens]."""
        return np.linalg.norm(self.states.astype(np.float64), axis=-1)

    def changes(self) -> np.ndarray:
        """How far each layer turns each vector: 1 - the cosine with the layer before, float64 [layers, tokens]."""
        unit = self._unit()
        return 1.0 - (unit[1:] * unit[:-1]).sum(axis=-1)

    def nearness(self, token: int) -> np.ndarray:
        """The cosine of each vector with that of one token in the same layer: float64 [layers + 1, tokens].

        Raises InputError when there is no such token.
        """
        if not 0 <= token < len(self.tokens):
            raise InputError(f"Token {token} is not there: the text has tokens 0 to {len(self.tokens) - 1}.")
        unit = self._unit()
        return np.clip((unit * unit[:, [token]]).sum(axis=-1), -1.0, 1.0)

    def _unit(self) -> np.ndarray:
        """The vectors at length 1: float64 [layers + 1, tokens, hidden]."""
        wide = self.states.astype(np.float64)
        return wide / np.maximum(np.linalg.norm(wide, axis=-1, keepdims=True), 1e-12)


def layer_states(model: Model, text: Text, max_length: int | None = None) -> LayerStates:
    """Every layer's vectors of one text or pair, in one pass. max_length: tokens that are read, None for all."""
    count = model.config.num_hidden_layers + 1
    encoder = TextEncoder(model, list(range(count)), pooling="none", max_length=max_length)
    found = next(encoder.token_vectors([text]))
    states = found.vectors.reshape(len(found.tokens), count, -1).transpose(1, 0, 2)  # [layers + 1, tokens, hidden]
    return LayerStates(found.tokens, found.words, found.spans, states)
