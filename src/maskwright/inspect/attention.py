"""Who attends to whom: the weights of every head of every layer for one text (Vaswani et al. 2017, section 3.2).

An encoder has one map of weights, an encoder-decoder three: of the source to itself, of the target to what was written
before, and of the target to the source. A recurrent one with attention has the last alone (Bahdanau et al. 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.errors import ConfigError, InputError
from ..core.registry import unknown_name
from ..models.model import Model
from ..tasks.alignments import attends as attends_to_source
from ..text.inputs import Text
from .reading import Reading, read
from .tokens import Tokens

MOST_WRITTEN = 4_000_000  # weights as JSON: about 40 MB
# Where queries (Q), keys (K) and values (V) of each kind come from.
SOURCES = {
    "self": "Q, K and V all come from the text itself; every token may see every token.",
    "sparse": "Q, K and V all come from the text itself; a token sees its window and a few chosen others.",
    "masked": "Q, K and V all come from the text itself; a token sees itself and those before it.",
    "encoder": "Q, K and V all come from the source; every token may see every token.",
    "decoder": "Q, K and V all come from the target; a token sees itself and those before it.",
    "cross": "Q comes from the target, K and V from what the encoder made of the source.",
}


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The weights of one kind of attention.

    kind: a name of SOURCES; queries, keys: the tokens that look, and those that are seen; weights: float32 [layers,
    heads, queries, keys], each row sums to 1; layers, heads: their numbers, from 1.
    """

    kind: str
    queries: Tokens
    keys: Tokens
    weights: np.ndarray
    layers: tuple[int, ...]
    heads: tuple[int, ...]

    @property
    def source(self) -> str:
        """Where its queries, keys and values come from."""
        return SOURCES[self.kind]

    @property
    def is_causal(self) -> bool:
        """Whether no token sees a later one."""
        return self.kind in ("masked", "decoder")

    def of(self, layer: int, head: int) -> np.ndarray:
        """The weights of one head: float32 [queries, keys]. layer, head: numbers from 1. Raises ConfigError."""
        return self.weights[_place(layer, self.layers, "layer"), _place(head, self.heads, "head")]

    def select(self, layers: Sequence[int] | None = None, heads: Sequence[int] | None = None) -> AttentionMap:
        """The same with these layers and heads alone (None: all), numbers from 1. Raises ConfigError."""
        own_layers = self.layers if layers is None else tuple(layers)
        own_heads = self.heads if heads is None else tuple(heads)
        rows = [_place(layer, self.layers, "layer") for layer in own_layers]
        columns = [_place(head, self.heads, "head") for head in own_heads]
        return replace(self, weights=self.weights[rows][:, columns], layers=own_layers, heads=own_heads)

    def to_json(self, digits: int = 6, *, weights: bool = True) -> dict[str, Any]:
        """{"kind", "source", "layers", "heads", "queries", "keys", "weights"}; weights are rounded to `digits`.

        weights: whether they are part of it. Raises ConfigError for more than MOST_WRITTEN of them.
        """
        own = {"kind": self.kind, "source": self.source, "layers": list(self.layers), "heads": list(self.heads)}
        sides = {"queries": self.queries.to_json(), "keys": self.keys.to_json()}
        if not weights:
            return own | sides
        if self.weights.size > MOST_WRITTEN:
            raise ConfigError(
                f"{self.weights.size:,} weights are too many for JSON (at most {MOST_WRITTEN:,}): choose layers or "
                "heads, or write a page (.html)."
            )
        return own | sides | {"weights": np.round(self.weights.astype(np.float64), digits).tolist()}


@dataclass(frozen=True, eq=False)
class Attention:
    """All maps of a text: one of an encoder or a left-to-right model, three of an encoder-decoder.

    is_given: whether the target was given; False where the model wrote it.
    """

    maps: tuple[AttentionMap, ...]
    is_given: bool = True

    @property
    def main(self) -> AttentionMap:
        """The map that is looked at first: the cross-attention where there is one."""
        return self.maps[-1]

    def of(self, kind: str | None) -> AttentionMap:
        """The map of a kind; None for `main`. Raises ConfigError for one that this model does not have."""
        if kind is None:
            return self.main
        for found in self.maps:
            if found.kind == kind:
                return found
        raise ConfigError(unknown_name("kind of attention", kind, [one.kind for one in self.maps]))

    def select(self, layers: Sequence[int] | None = None, heads: Sequence[int] | None = None) -> Attention:
        """The same with these layers and heads alone, numbers from 1."""
        return replace(self, maps=tuple(one.select(layers, heads) for one in self.maps))

    def to_json(self, digits: int = 6, *, weights: bool = True) -> dict[str, Any]:
        """{"target": "given" or "written", "maps": [...]}; arguments as of the maps."""
        target = {} if self.main.kind != "cross" else {"target": "given" if self.is_given else "written"}
        return {**target, "maps": [one.to_json(digits, weights=weights) for one in self.maps]}


def attention(
    model: Model, text: Text, *, target: str | None = None, max_length: int | None = None, beams: int = 1
) -> Attention:
    """The weights of every head for a text, or a pair of texts; arguments as `read` takes them.

    model: any that `maskwright.load` gives. Raises InputError as `read` does.
    """
    return attention_of(read(model, text, target=target, max_length=max_length, beams=beams))


def attention_of(reading: Reading) -> Attention:
    """The same for a text that was read. Raises InputError where the model attends to nothing."""
    with torch.inference_mode():
        encoded, decoded = reading.run()
    source, target = reading.source, reading.target
    parts = [(kind_of(reading.model), source, source, encoded.attentions)]
    if decoded is not None and target is not None:
        parts.append(("decoder", target, target, decoded.attentions))
        parts.append(("cross", target, source, decoded.cross_attentions))
    maps = tuple(_map(kind, queries, keys, weights) for kind, queries, keys, weights in parts if weights)
    if not maps:
        raise InputError(
            "This model attends to nothing: it has no attention weights to show. What its layers know, "
            "maskwright probe says."
        )
    return Attention(maps, reading.is_given)


def attends(model: Model) -> bool:
    """Whether there is attention to show: in the encoder, or of what a decoder writes to its source."""
    return model.config.attends or attends_to_source(model)


def kind_of(model: Model) -> str:
    """What kind of attention the encoder of a model has: a name of SOURCES."""
    if model.has_decoder:
        return "encoder"
    return {"causal": "masked", "full": "self"}.get(model.config.attention, "sparse")


def _map(kind: str, queries: Tokens, keys: Tokens, weights: tuple[tuple[Tensor, ...], ...]) -> AttentionMap:
    """weights: for each layer [heads, queries, keys] of one text."""
    stacked = torch.stack([layer[0].float().cpu() for layer in weights]).numpy()  # [layers, heads, queries, keys]
    layers, heads = stacked.shape[:2]
    return AttentionMap(kind, queries, keys, stacked, tuple(range(1, layers + 1)), tuple(range(1, heads + 1)))


def _place(number: int, known: Sequence[int], what: str) -> int:
    if number not in known:
        some = f"{known[0]} to {known[-1]}" if len(known) == known[-1] - known[0] + 1 else ", ".join(map(str, known))
        raise ConfigError(f"There is no {what} {number} here: it has {what}s {some}.")
    return known.index(number)
