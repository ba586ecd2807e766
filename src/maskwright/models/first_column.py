"""The pooled token of rows whose first column the attention mask drops (left padding, or a hole there).

transformers pools column 0 whatever the mask says: a padding token that nothing attends to, but that attends to the
kept tokens. Such a token is no part of the pack, so its vector is computed here, beside it, layer by layer.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..data.batch import Batch
from ..nn.attention import SelfAttention, scaled_dot_product
from .padded import PaddedRows
from .transformer import Encoded, Layer, Transformer


def dropped_firsts(rows: PaddedRows) -> tuple[Tensor, Batch]:
    """Packed sequences whose row drops column 0, int64 [n], and those tokens as a `Batch` of n sequences."""
    blind = (~rows.keep[rows.rows, :1]).any(dim=1).nonzero().squeeze(1)
    where, types = rows.rows[blind], rows.token_type_ids
    tokens = Batch(
        input_ids=rows.input_ids[where, :1].flatten(),
        cu_seqlens=torch.arange(len(where) + 1, dtype=torch.int32),
        position_ids=rows.position_ids[where, :1].flatten(),
        token_type_ids=None if types is None else types[where, :1].flatten(),
    )
    return blind, tokens


def first_column(encoder: Transformer, rows: PaddedRows, encoded: Encoded, blind: Tensor, tokens: Batch) -> Tensor:
    """The last hidden state of column 0 of every packed row: float [sequences, hidden].

    encoded: of the pack, with hidden_states unless `blind` is empty; blind, tokens: from `dropped_firsts`.
    """
    first = encoded.hidden[rows.batch.first_tokens]  # [sequences, hidden]
    if not tokens.num_tokens or encoded.hidden_states is None:
        return first
    token = encoder.embeddings(
        tokens.input_ids, tokens.position_ids, tokens.token_type_ids, encoded.hidden.dtype
    )  # [n, hidden]
    starts = rows.batch.cu_seqlens.tolist()
    spans = [slice(starts[index], starts[index + 1]) for index in blind.tolist()]
    for layer, hidden in zip(encoder.layers, encoded.hidden_states[:-1], strict=True):
        assert isinstance(layer, Layer)
        seen = [_look(layer.attention, one, hidden[span]) for one, span in zip(token, spans, strict=True)]
        token = layer.add(token, layer.attention.out(torch.stack(seen)))
    return first.index_copy(0, blind, token)


def _look(attention: SelfAttention, token: Tensor, hidden: Tensor) -> Tensor:
    """What one token, not itself attended to, gathers from a sequence. token: [hidden]; hidden: [length, hidden]."""
    size, heads = token.shape[0], attention.num_heads
    query = attention.qkv(token)[:size].view(heads, 1, -1)
    key, value = attention.qkv(hidden)[:, size:].view(hidden.shape[0], 2, heads, -1).permute(1, 2, 0, 3)
    dropout_probability = attention.attention_dropout if attention.training else 0.0
    context, _ = scaled_dot_product(query, key, value, dropout_probability)  # [heads, 1, head_dim]
    return context.reshape(size)
