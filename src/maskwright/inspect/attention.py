"""Attention weights of every head and layer for one text (Vaswani et al. 2017, section 3.2).

An encoder has one attention map; an encoder-decoder has three: encoder self-attention, decoder self-attention and
cross-attention. A recurrent encoder-decoder has only cross-attention (Bahdanau et al. 2015).
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
from ..tasks.translation import attends as attends_to_source
from ..text.readers.inputs import Text
from .reading import TokenizedText, read
from .tokens import Tokens

MAX_JSON_WEIGHTS = 4_000_000  # about 40 MB of JSON
# Source of the queries (Q), keys (K) and values (V) of each kind.
SOURCES = {
    "self": "Q, K and V all come from the text; every token attends to every token.",
    "sparse": "Q, K and V all come from the text; a token attends to its window and a few global tokens.",
    "masked": "Q, K and V all come from the text; a token attends to itself and the preceding tokens.",
    "encoder": "Q, K and V all come from the source; every token attends to every token.",
    "decoder": "Q, K and V all come from the target; a token attends to itself and the preceding tokens.",
    "cross": "Q comes from the target, K and V come from the encoder output.",
}


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """Weights of one kind of attention.

    kind: a name of SOURCES; queries, keys: query and key tokens; weights: float32 [layers, heads, queries, keys], each
    row sums to 1; layers, heads: numbers from 1.
    """

    kind: str
    queries: Tokens
    keys: Tokens
    weights: np.ndarray
    layers: tuple[int, ...]
    heads: tuple[int, ...]

    @property
    def source(self) -> str:
        """Source of the queries, keys and values."""
        return SOURCES[self.kind]

    @property
    def is_causal(self) -> bool:
        """Whether no token attends to a later one."""
        return self.kind in ("masked", "decoder")

    def of(self, layer: int, head: int) -> np.ndarray:
        """Return the weights of one head: float32 [queries, keys]. layer, head: from 1. Raises ConfigError."""
        return self.weights[_index(layer, self.layers, "layer"), _index(head, self.heads, "head")]

    def select(self, layers: Sequence[int] | None = None, heads: Sequence[int] | None = None) -> AttentionMap:
        """Select layers and heads (None: all), numbers from 1. Raises ConfigError."""
        selected_layers = self.layers if layers is None else tuple(layers)
        selected_heads = self.heads if heads is None else tuple(heads)
        rows = [_index(layer, self.layers, "layer") for layer in selected_layers]
        columns = [_index(head, self.heads, "head") for head in selected_heads]
        return replace(self, weights=self.weights[rows][:, columns], layers=selected_layers, heads=selected_heads)

    def to_json(self, digits: int = 6, *, weights: bool = True) -> dict[str, Any]:
        """Return {"kind", "source", "layers", "heads", "queries", "keys", "weights"}; weights rounded to `digits`.

        weights: include the weights. Raises ConfigError for more than MAX_JSON_WEIGHTS weights.
        """
        facts = {"kind": self.kind, "source": self.source, "layers": list(self.layers), "heads": list(self.heads)}
        sides = {"queries": self.queries.to_json(), "keys": self.keys.to_json()}
        if not weights:
            return facts | sides
        if self.weights.size > MAX_JSON_WEIGHTS:
            raise ConfigError(
                f"{self.weights.size:,} weights are too many for JSON (at most {MAX_JSON_WEIGHTS:,}): choose layers or "
                "heads, or write an HTML page (.html)."
            )
        return facts | sides | {"weights": np.round(self.weights.astype(np.float64), digits).tolist()}


@dataclass(frozen=True, eq=False)
class Attention:
    """All attention maps of a text: one for an encoder or causal model, three for an encoder-decoder.

    is_given: whether the target was given; False if the model generated it.
    """

    maps: tuple[AttentionMap, ...]
    is_given: bool = True

    @property
    def main(self) -> AttentionMap:
        """The default map: cross-attention if there is one."""
        return self.maps[-1]

    def of(self, kind: str | None) -> AttentionMap:
        """Return the map of a kind; None for `main`. Raises ConfigError if the model does not have it."""
        if kind is None:
            return self.main
        for found in self.maps:
            if found.kind == kind:
                return found
        raise ConfigError(unknown_name("kind of attention", kind, [one.kind for one in self.maps]))

    def select(self, layers: Sequence[int] | None = None, heads: Sequence[int] | None = None) -> Attention:
        return replace(self, maps=tuple(one.select(layers, heads) for one in self.maps))

    def to_json(self, digits: int = 6, *, weights: bool = True) -> dict[str, Any]:
        """Return {"target": "given" or "written", "maps": [...]}; arguments as for the maps."""
        target = {} if self.main.kind != "cross" else {"target": "given" if self.is_given else "written"}
        return {**target, "maps": [one.to_json(digits, weights=weights) for one in self.maps]}


def attention(
    model: Model, text: Text, *, target: str | None = None, max_length: int | None = None, beams: int = 1
) -> Attention:
    """Return the attention weights of every head for a text or text pair.

    Arguments and errors as in `read`.
    """
    return attention_of(read(model, text, target=target, max_length=max_length, beams=beams))


def attention_of(reading: TokenizedText) -> Attention:
    """Return the attention weights of a text that was read. Raises InputError for a model without attention."""
    with torch.inference_mode():
        encoded, decoded = reading.run()
    source, target = reading.source, reading.target
    parts = [(kind_of(reading.model), source, source, encoded.attentions)]
    if decoded is not None and target is not None:
        parts.append(("decoder", target, target, decoded.attentions))
        parts.append(("cross", target, source, decoded.cross_attentions))
    maps = tuple(_map(kind, queries, keys, weights) for kind, queries, keys, weights in parts if weights)
    if not maps:
        raise InputError("This model has no attention weights to show. To inspect its layers, use probe.")
    return Attention(maps, reading.is_given)


def attends(model: Model) -> bool:
    """Return whether the model has attention weights, in the encoder or from decoder to source."""
    return model.graph_precision is None and (model.config.attends or attends_to_source(model))


def kind_of(model: Model) -> str:
    """Return the attention kind of a model's encoder: a name of SOURCES."""
    if model.has_decoder:
        return "encoder"
    return {"causal": "masked", "full": "self"}.get(model.config.attention, "sparse")


def _map(kind: str, queries: Tokens, keys: Tokens, weights: tuple[tuple[Tensor, ...], ...]) -> AttentionMap:
    """Build a map. weights: [heads, queries, keys] of one text per layer."""
    stacked = torch.stack([layer[0].float().cpu() for layer in weights]).numpy()  # [layers, heads, queries, keys]
    layers, heads = stacked.shape[:2]
    return AttentionMap(kind, queries, keys, stacked, tuple(range(1, layers + 1)), tuple(range(1, heads + 1)))


def _index(number: int, known: Sequence[int], what: str) -> int:
    if number not in known:
        some = f"{known[0]} to {known[-1]}" if len(known) == known[-1] - known[0] + 1 else ", ".join(map(str, known))
        raise ConfigError(f"There is no {what} {number}: the model has {what}s {some}.")
    return known.index(number)
