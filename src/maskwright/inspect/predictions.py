"""Token predictions of a language model, and of each of its layers (logit lens)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..core.errors import InputError
from ..models.encoder_decoder import EncoderDecoder
from ..models.model import Model, tokenizer_of
from ..text.readers.inputs import Text
from .reading import TokenizedText, read
from .tokens import Tokens

LANGUAGE_MODEL_HEADS = ("mlm", "pretraining", "clm", "seq2seq")


@dataclass(frozen=True)
class MaskPrediction:
    """One predicted token. token: vocabulary entry; rank: rank in the vocabulary, from 1."""

    id: int
    token: str
    probability: float
    rank: int


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions at positions of a text.

    tokens: of the text; places: token indices of the positions; probabilities: float64 [places, vocab], rows sum to 1;
    by_layer: the same from the hidden states of every layer, float32 [layers + 1, places, vocab], or None; vocabulary:
    token of each ID; fills: True if the positions are masks, False if the next token is predicted.
    """

    tokens: Tokens
    places: tuple[int, ...]
    probabilities: np.ndarray
    by_layer: np.ndarray | None
    vocabulary: tuple[str, ...]
    fills: bool = True

    def top(self, place: int = 0, count: int = 10, layer: int | None = None) -> list[MaskPrediction]:
        """Return the most probable tokens. place: position number from 0; layer: from 0, None for the model output."""
        row = self._row(place, layer)
        order = np.argsort(-row, kind="stable")[:count]
        return [self._prediction(row, int(id), rank) for rank, id in enumerate(order, start=1)]

    def search(self, part: str, place: int = 0, count: int = 50) -> list[MaskPrediction]:
        """Return the tokens that contain `part` (case-insensitive), most probable first."""
        row = self._row(place, None)
        ranks = np.empty(len(row), dtype=np.int64)
        ranks[np.argsort(-row, kind="stable")] = np.arange(1, len(row) + 1)
        wanted = part.lower()
        found = [id for id, token in enumerate(self.vocabulary) if wanted in token.lower()]
        found.sort(key=lambda id: int(ranks[id]))
        return [self._prediction(row, id, int(ranks[id])) for id in found[:count]]

    def to_json(self, count: int = 10) -> dict[str, Any]:
        """Return {"places": [{"token", "index", "guesses": [{"id", "token", "probability", "rank"}]}]}."""
        places = [
            {
                "token": self.tokens.labels[index],
                "index": index,
                "guesses": [vars(one) for one in self.top(number, count)],
            }
            for number, index in enumerate(self.places)
        ]
        return {"places": places}

    def _row(self, place: int, layer: int | None) -> np.ndarray:
        if not 0 <= place < len(self.places):
            raise InputError(f"There is no position {place}: there are {len(self.places)}, counted from 0.")
        if layer is None:
            of_model: np.ndarray = self.probabilities[place]
            return of_model
        if self.by_layer is None or not 0 <= layer < len(self.by_layer):
            raise InputError(f"There are no predictions for layer {layer}.")
        of_layer: np.ndarray = self.by_layer[layer, place]
        return of_layer

    def _prediction(self, row: np.ndarray, id: int, rank: int) -> MaskPrediction:
        return MaskPrediction(id, self.vocabulary[id] if id < len(self.vocabulary) else str(id), float(row[id]), rank)


def predictions(
    model: Model, text: Text, *, target: str | None = None, max_length: int | None = None, layers: bool = True
) -> Predictions:
    """Predict the token at each mask; for a causal model or a decoder, the next token at every position.

    layers: also apply the head to each layer ("logit lens"). Raises InputError for a model without a language model
    head, and for a masked language model if the text has no mask.
    """
    return predictions_of(read(model, text, target=target, max_length=max_length), layers=layers)


def predictions_of(reading: TokenizedText, *, layers: bool = True, last: int | None = None) -> Predictions:
    """Predict tokens for a text that was read. last: only the last positions; None for all.

    For a recurrent network only the last layer predicts.
    """
    model = reading.model
    layers = layers and model.config.recurrent is None
    if model.head_name not in LANGUAGE_MODEL_HEADS:
        raise InputError("Predictions require a masked or causal language model.")
    tokens = reading.target or reading.source
    tokenizer = (getattr(model, "target_tokenizer", None) if reading.target else None) or tokenizer_of(model)
    places = tuple(range(len(tokens)))
    fills = model.head_name in ("mlm", "pretraining") and not model.config.pools_last_token
    if fills:
        places = tuple(index for index, id in enumerate(tokens.ids) if id == tokenizer.mask_id)
        if not places:
            shown = None if tokenizer.mask_id is None else tokenizer.id_to_token(tokenizer.mask_id)
            raise InputError(f"The text has no {shown or 'mask'}: insert one at the position to predict.")
    places = places if last is None else places[-last:]
    stack = model.decoder if isinstance(model, EncoderDecoder) else model.encoder
    with torch.inference_mode():
        encoded, decoded = reading.run()
        *before, end = (decoded or encoded).hidden_states or ()
        chosen = [stack.finish(layer) for layer in before] if layers else []  # the final norm
        logits = [model.mlm_logits(layer[list(places)]) for layer in (*chosen, end)]
        own = [one.double().softmax(dim=-1).cpu() for one in logits]
    by_layer = torch.stack(own).float().numpy() if layers else None
    return Predictions(tokens, places, own[-1].numpy(), by_layer, tuple(tokenizer.tokens), fills)
