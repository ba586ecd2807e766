"""One attention layer step by step, with the real numbers of a text: what comes in, split into heads, attention, heads
beside each other again, W_O (Vaswani et al. 2017, figure 2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.config import check
from ..models.encoder_decoder import EncoderDecoder
from ..models.model import Model
from ..text.inputs import Text
from .capture import calls_of
from .query_key import QueryKey, query_key_of
from .reading import Reading, read
from .tokens import Tokens


@dataclass(frozen=True, eq=False)
class Step:
    """One of the five. name; formula; values: float32, its shape in `axes`, as "heads, tokens, head_dim"."""

    name: str
    formula: str
    axes: str
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class LayerSteps:
    """The way of a text through the self-attention of a layer.

    layer: its number from 1; tokens; inputs: float32 [tokens, hidden], what the products are given (behind the norm of
    a pre-norm network); query, key, value: [heads, tokens, head_dim]; weights: [heads, tokens, tokens]; contexts:
    [heads, tokens, head_dim]; joined: [tokens, hidden], the heads beside each other; output: [tokens, hidden],
    behind W_O.
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
        """The steps in order, as the lectures count them."""
        heads, _, size = self.query.shape
        return [
            Step("embed", "x", "tokens, hidden", self.inputs),
            Step("split into heads", f"q, k, v = x W: {heads} heads of {size}", "3, heads, tokens, head_dim",
                 np.stack([self.query, self.key, self.value])),
            Step("attention", f"softmax(q kᵀ / √{size}) v", "heads, tokens, head_dim", self.contexts),
            Step("concat", f"{heads} x {size} numbers side by side", "tokens, hidden", self.joined),
            Step("W_O", "concat W_O + b", "tokens, hidden", self.output),
        ]  # fmt: skip


def layer_steps(model: Model, text: Text, layer: int, *, max_length: int | None = None) -> LayerSteps:
    """The steps of one layer of an encoder or a left-to-right model; of an encoder-decoder those of its encoder.

    layer: from 1. Raises ConfigError for one that is not there.
    """
    target = "" if isinstance(model, EncoderDecoder) else None
    return steps_of(read(model, text, target=target, max_length=max_length))[_checked(model, layer) - 1]


def steps_of(reading: Reading) -> list[LayerSteps]:
    """The steps of every layer for a text that was read, in one pass."""
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
    check(1 <= layer <= most, f"There is no layer {layer} here: the network has layers 1 to {most}.")
    return layer
