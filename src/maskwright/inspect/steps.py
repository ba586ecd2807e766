"""One attention layer step by step: input, split into heads, attention, concatenation, W_O (Vaswani et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.config import check
from ..models.encoder_decoder import EncoderDecoder
from ..models.model import Model
from ..text.readers.inputs import Text
from .capture import calls_of
from .query_key import QueryKey, query_key_of
from .reading import TokenizedText, read
from .tokens import Tokens


@dataclass(frozen=True, eq=False)
class Step:
    """One of the five steps. values: float32, with the shape that `axes` names, such as "heads, tokens, head_dim"."""

    name: str
    formula: str
    axes: str
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class LayerSteps:
    """Tensors of the self-attention of one layer.

    layer: number from 1; inputs: after the norm of a pre-norm model, float32 [tokens, hidden]; query, key, value:
    [heads, tokens, head_dim]; weights: [heads, tokens, tokens]; contexts: [heads, tokens, head_dim]; joined:
    concatenated heads, [tokens, hidden]; output: after W_O, [tokens, hidden].
    """

    layer: int
    tokens: Tokens
    inputs: np.ndarray
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    weights: np.ndarray
    contexts: np.ndarray
    joined: np.ndarray
    output: np.ndarray

    @property
    def five(self) -> list[Step]:
        """The five steps in order."""
        heads, _, size = self.query.shape
        return [
            Step("embed", "x", "tokens, hidden", self.inputs),
            Step("split into heads", f"q, k, v = x W: {heads} heads of {size}", "3, heads, tokens, head_dim",
                 np.stack([self.query, self.key, self.value])),
            Step("attention", f"softmax(q kᵀ / √{size}) v", "heads, tokens, head_dim", self.contexts),
            Step("concat", f"{heads} x {size} concatenated", "tokens, hidden", self.joined),
            Step("W_O", "concat W_O + b", "tokens, hidden", self.output),
        ]  # fmt: skip


def layer_steps(model: Model, text: Text, layer: int, *, max_length: int | None = None) -> LayerSteps:
    """Return the steps of one layer of an encoder or causal model, or of the encoder of an encoder-decoder.

    layer: from 1. Raises ConfigError for a layer out of range.
    """
    target = "" if isinstance(model, EncoderDecoder) else None
    return steps_of(read(model, text, target=target, max_length=max_length))[_checked(model, layer) - 1]


def steps_of(reading: TokenizedText) -> list[LayerSteps]:
    """Return the steps of every layer for a text that was read."""
    stack = reading.model.encoder
    kind = "encoder" if reading.model.has_decoder else None
    with (
        calls_of(layer.attention.qkv for layer in stack.in_order) as projected,
        calls_of(layer.attention.out for layer in stack.in_order) as put_out,
    ):
        found = query_key_of(reading, kind)
    return [
        _steps(found, index, projected[index][0].float().cpu().numpy(), *(part.float().cpu().numpy() for part in both))
        for index, both in enumerate(put_out)
    ]


def _steps(found: QueryKey, index: int, inputs: np.ndarray, joined: np.ndarray, output: np.ndarray) -> LayerSteps:
    heads, tokens, size = found.query[index].shape
    contexts = joined.reshape(tokens, heads, size).transpose(1, 0, 2)  # [heads, tokens, head_dim]
    return LayerSteps(
        index + 1,
        found.map.queries,
        inputs,
        found.query[index],
        found.key[index],
        found.value[index],
        found.map.weights[index],
        contexts,
        joined,
        output,
    )


def _checked(model: Model, layer: int) -> int:
    most = model.config.num_hidden_layers
    check(1 <= layer <= most, f"There is no layer {layer}: the model has layers 1 to {most}.")
    return layer
