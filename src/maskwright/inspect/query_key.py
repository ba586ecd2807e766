"""Queries, keys and values of every attention head.

The score is the dot product of query and key divided by sqrt(head_dim), plus the relative position bias; the softmax
over the keys gives the weights (Vaswani et al. 2017, equation 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError
from ..models.attention_rules import angles_of
from ..models.encoder_decoder import EncoderDecoder
from ..models.model import Model
from ..models.transformer import Transformer
from ..nn.rotary import rotate_query_key
from ..text.readers.inputs import Text
from .attention import AttentionMap, attention_of
from .capture import calls_of
from .reading import TokenizedText, read


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
        """1 / sqrt(head_dim)."""
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
    relatives = stack.relatives
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
