"""What a language model would put at a place: the probability of every token of the vocabulary, and what each layer
would say if it were the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..core.errors import InputError
from ..models.encoder_decoder import EncoderDecoder
from ..models.model import Model
from ..text.inputs import Text
from .reading import Reading, read
from .tokens import Tokens

GUESSING = ("mlm", "pretraining", "clm", "seq2seq")


@dataclass(frozen=True)
class Guess:
    """One token. id; token: as the vocabulary has it; probability; rank: among all tokens, from 1."""

    id: int
    token: str
    probability: float
    rank: int


@dataclass(frozen=True, eq=False)
class Predictions:
    """The guesses for some places of a text.

    tokens: of the text; places: index of each place among them; probabilities: float64 [places, vocab], rows sum to 1;
    by_layer: the same from the vectors of every layer through the head, float32 [layers + 1, places, vocab], or None;
    vocabulary: the token of each id; fills: whether the places are masks that are filled, or tokens with what comes
    behind them.
    """

    tokens: Tokens
    places: tuple[int, ...]
    probabilities: np.ndarray
    by_layer: np.ndarray | None
    vocabulary: tuple[str, ...]
    fills: bool = True

    def top(self, place: int = 0, count: int = 10, layer: int | None = None) -> list[Guess]:
        """The most probable tokens. place: number of the place from 0; layer: from 0, None for the whole network."""
        row = self._row(place, layer)
        order = np.argsort(-row, kind="stable")[:count]
        return [self._guess(row, int(id), rank) for rank, id in enumerate(order, start=1)]

    def search(self, part: str, place: int = 0, count: int = 50) -> list[Guess]:
        """The tokens that hold `part` (in any case), most probable first, with their rank among all."""
        row = self._row(place, None)
        ranks = np.empty(len(row), dtype=np.int64)
        ranks[np.argsort(-row, kind="stable")] = np.arange(1, len(row) + 1)
        wanted = part.lower()
        found = [id for id, token in enumerate(self.vocabulary) if wanted in token.lower()]
        found.sort(key=lambda id: int(ranks[id]))
        return [self._guess(row, id, int(ranks[id])) for id in found[:count]]

    def to_json(self, count: int = 10) -> dict[str, Any]:
        """{"places": [{"token", "index", "guesses": [{"id", "token", "probability", "rank"}]}]}."""
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
            raise InputError(f"There is no place {place} here: there are {len(self.places)}, counted from 0.")
        if layer is None:
            own: np.ndarray = self.probabilities[place]
            return own
        if self.by_layer is None or not 0 <= layer < len(self.by_layer):
            raise InputError(f"There is nothing for layer {layer} here.")
        of_layer: np.ndarray = self.by_layer[layer, place]
        return of_layer

    def _guess(self, row: np.ndarray, id: int, rank: int) -> Guess:
        return Guess(id, self.vocabulary[id] if id < len(self.vocabulary) else str(id), float(row[id]), rank)


def predictions(
    model: Model, text: Text, *, target: str | None = None, max_length: int | None = None, layers: bool = True
) -> Predictions:
    """What the model would put at each mask of a text; of a left-to-right model and a decoder, behind every token.

    layers: whether each layer is asked too, through the same head ("logit lens"). Raises InputError for a model that
    guesses no tokens, and for a text without a mask where masks are filled.
    """
    return predictions_of(read(model, text, target=target, max_length=max_length), layers=layers)


def predictions_of(reading: Reading, *, layers: bool = True, last: int | None = None) -> Predictions:
    """The same for a text that was read. last: only so many places, the last ones; None for all.

    Of a recurrent network the last layer alone guesses: what stands below it is no guess.
    """
    model = reading.model
    layers = layers and model.config.recurrent is None
    if model.head_name not in GUESSING:
        raise InputError("This model guesses no tokens: it takes a masked or left-to-right language model.")
    tokens = reading.target or reading.source
    tokenizer = (getattr(model, "target_tokenizer", None) if reading.target else None) or model.tokenizer
    places = tuple(range(len(tokens)))
    fills = model.head_name in ("mlm", "pretraining") and not model.config.judges_last
    if fills:
        places = tuple(index for index, id in enumerate(tokens.ids) if id == tokenizer.mask_id)
        if not places:
            shown = None if tokenizer.mask_id is None else tokenizer.id_to_token(tokenizer.mask_id)
            raise InputError(f"The text has no {shown or 'mask'}: put one where a word is to be guessed.")
    places = places if last is None else places[-last:]
    stack = model.decoder if isinstance(model, EncoderDecoder) else model.encoder
    with torch.inference_mode():
        encoded, decoded = reading.run()
        *before, end = (decoded or encoded).hidden_states or ()
        chosen = [stack.finish(layer) for layer in before] if layers else []  # the norm that the last one has behind it
        own = [_probabilities(model, layer[list(places)]) for layer in (*chosen, end)]
    by_layer = torch.stack(own).float().numpy() if layers else None
    return Predictions(tokens, places, own[-1].numpy(), by_layer, tuple(tokenizer.tokens), fills)


def _probabilities(model: Model, hidden: torch.Tensor) -> torch.Tensor:
    """hidden: float [places, hidden]. Returns float64 [places, vocab] on the CPU."""
    return model.mlm_logits(hidden).double().softmax(dim=-1).cpu()
