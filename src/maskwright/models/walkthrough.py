"""Self-attention of one layer in five steps, with the tensors of a real model: embed, project and split into heads,
score, weigh the values, join the heads (Vaswani et al. 2017, sections 3.2.1 and 3.2.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from ..core.errors import InputError
from ..data.batch import Batch
from ..nn.attention import scaled_dot_product
from .model import Model


@dataclass(frozen=True)
class Step:
    """One step. name: what is done; formula: how; tensor: what comes out."""

    name: str
    formula: str
    tensor: Tensor

    @property
    def size(self) -> str:
        """The shape in figures: 8 x 10 x 64."""
        return " x ".join(map(str, self.tensor.shape))


@torch.inference_mode()
def attention_steps(model: Model, ids: list[int], layer: int = 1) -> list[Step]:
    """The five steps of one layer for one text; the last is what the layer's attention gives.

    ids: of the tokens; layer: from 1. Shapes: hidden states [tokens, hidden]; queries, keys and values [3, heads,
    tokens, head_dim]; weights [heads, tokens, tokens]; contexts [heads, tokens, head_dim]; result [tokens, hidden].
    Raises InputError for a layer that is not there, and for attention by another rule than full or causal.
    """
    config = model.config
    if not 1 <= layer <= config.num_hidden_layers:
        raise InputError(f"Layer {layer} is not there: this model has 1 to {config.num_hidden_layers}.")
    if config.attention not in ("full", "causal") or config.positions.startswith(("relative", "rotary")):
        raise InputError("The five steps are those of plain attention, full or causal, without relative positions.")
    batch = Batch.from_sequences([ids])
    states = model.eval().encode(batch, hidden_states=True).hidden_states
    assert states is not None
    depth = next(islice(model.encoder.in_order, layer - 1, None))
    heads, hidden = config.num_attention_heads, states[layer - 1]
    before = depth.attention_norm(hidden) if depth.is_pre and depth.attention_norm is not None else hidden
    projected = depth.attention.qkv(before)  # [tokens, 3 * hidden]
    qkv = projected.view(len(ids), 3, heads, -1).permute(1, 2, 0, 3)  # [3, heads, tokens, head_dim]
    query, key, value = qkv.unbind()  # [heads, tokens, head_dim] each
    context, weights = scaled_dot_product(query, key, value, causal=config.attention == "causal")
    joined = context.transpose(0, 1).reshape(len(ids), -1)  # [tokens, hidden]
    return [
        Step("embed", f"the hidden states below layer {layer}", hidden),
        Step("split into heads", "q, k, v = W x, a block of each for every head", qkv),
        Step("score", "softmax(q kᵀ / √head_dim)", weights),
        Step("weigh", "weights × v, for every head", context),
        Step("join", "concatenate the heads, times W_O", depth.attention.out(joined)),
    ]
