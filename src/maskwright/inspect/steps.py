"""One attention layer step by step: input, split into heads, attention, concatenation, W_O (Vaswani et al. 2017)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..core.config import check
from ..core.errors import InputError
from ..models.encoder_decoder import EncoderDecoder
from ..models.model import Model
from ..models.transformer import Transformer, angles_of
from ..nn.positions import rotate_query_key
from ..text.readers.inputs import Text
from .attention import AttentionMap, attention_of
from .reading import TokenizedText, calls_of, read
from .tokens import Tokens

# -- Queries, keys and values of every attention head ----------------------------------------------------------------
#
# The score is the dot product of query and key divided by sqrt(head_dim), plus the relative position bias; the softmax
# over the keys gives the weights (Vaswani et al. 2017, equation 1).


@dataclass(frozen=True, eq=False)
class QueryKey:
    """Queries, keys and values of one kind of attention.

    map: its weights; query: float32 [layers, heads, queries, head_dim]; key, value: [layers, heads, keys, head_dim],
    after rotary position embeddings; position: relative position bias, float32 [layers, heads, queries, keys], or None.
    """

    map: AttentionMap
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    position: np.ndarray | None = None

    @property
    def scale(self) -> float:
        return 1.0 / math.sqrt(self.query.shape[-1])

    @property
    def scores(self) -> np.ndarray:
        """Scores before causal mask and softmax: float32 [layers, heads, queries, keys]."""
        products = np.einsum("lhqd,lhkd->lhqk", self.query, self.key) * np.float32(self.scale)
        return products if self.position is None else products + self.position

    def products(self, layer: int, head: int, token: int) -> np.ndarray:
        """Return the element-wise products of one query with every key: float32 [keys, head_dim].

        layer, head: numbers from 1; token: query index. A row's sum times `scale` is the score without position bias.
        """
        place = self.map.layers.index(layer), self.map.heads.index(head)
        return self.query[place][token] * self.key[place]


def query_key(
    model: Model,
    text: Text,
    kind: str | None = None,
    *,
    target: str | None = None,
    max_length: int | None = None,
    beams: int = 1,
) -> QueryKey:
    """Return queries, keys and values of every head for a text.

    kind: attention kind of an encoder-decoder, None for cross-attention; other arguments as in `read`. Raises
    ConfigError for a kind that the model does not have, InputError for a model without queries and keys.
    """
    return query_key_of(read(model, text, target=target, max_length=max_length, beams=beams), kind)


def query_key_of(reading: TokenizedText, kind: str | None = None) -> QueryKey:
    """Return queries, keys and values for a text that was read."""
    model = reading.model
    if not model.config.attends:
        raise InputError("This model has no queries and keys: use a Transformer.")
    if isinstance(model, EncoderDecoder) and kind in (None, "cross"):
        return _cross_attention(reading, model)
    stack: Transformer = model.decoder if isinstance(model, EncoderDecoder) and kind == "decoder" else model.encoder
    with calls_of(layer.attention.qkv for layer in stack.in_order) as calls:
        found = attention_of(reading).of(kind)
    batch = reading.target_batch() if kind == "decoder" else reading.batch()
    angles = angles_of(stack.config, batch.position_ids, model.compute_dtype)
    scaled = [layer.attention.scaled(output) for layer, (_, output) in zip(stack.in_order, calls, strict=True)]
    rotated = [
        output if turn is None else rotate_query_key(output, len(found.heads), *turn)
        for output, turn in zip(scaled, angles, strict=True)
    ]
    query, key, value = _heads(rotated, 3, len(found.heads))
    return QueryKey(found, query, key, value, _position(stack, query, key))


def _cross_attention(reading: TokenizedText, model: EncoderDecoder) -> QueryKey:
    """Return target queries and source keys and values of cross-attention."""
    parts = [layer.cross for layer in model.decoder.depths]
    with calls_of(part.query for part in parts) as asked, calls_of(part.key_value for part in parts) as seen:
        found = attention_of(reading).of("cross")
    (query,) = _heads([output for _, output in asked], 1, len(found.heads))
    key, value = _heads([output for _, output in seen], 2, len(found.heads))
    return QueryKey(found, query, key, value)


def _heads(outputs: Sequence[Tensor], parts: int, num_heads: int) -> np.ndarray:
    """Reshape projections, [tokens, parts * hidden] per layer, to float32 [parts, layers, heads, tokens, head_dim]."""
    stacked = torch.stack(list(outputs)).float().cpu()  # [layers, tokens, parts * hidden]
    layers, tokens, _ = stacked.shape
    return stacked.view(layers, tokens, parts, num_heads, -1).permute(2, 0, 3, 1, 4).numpy()


def _position(stack: Transformer, query: np.ndarray, key: np.ndarray) -> np.ndarray | None:
    """Return the relative position bias of each layer. query, key: float32 [layers, heads, tokens, head_dim]."""
    relatives = stack.relatives(torch.float32)
    if all(one is None for one in relatives):
        return None
    scale, terms = 1.0 / math.sqrt(query.shape[-1]), []
    with torch.inference_mode():
        for one, own_query, own_key in zip(relatives, torch.from_numpy(query), torch.from_numpy(key), strict=True):
            shape = (len(own_query), own_query.shape[1], own_key.shape[1])
            if one is None:
                terms.append(torch.zeros(shape))
                continue
            device = next(stack.parameters()).device
            queries, keys = own_query[None].to(device) * scale, own_key[None].to(device)
            added = one.score_terms(queries, keys, scale, None, slice(None))
            terms.append(added.float().cpu().expand(1, *shape)[0] if added.ndim == 4 else added.float().cpu())
    return torch.stack(terms).numpy()  # [layers, heads, queries, keys]


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
