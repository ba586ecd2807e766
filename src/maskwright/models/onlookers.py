"""Tokens that the attention mask drops and whose vector is wanted all the same.

transformers computes every column: a dropped token attends to the kept tokens of its row, and nothing attends to it.
Two heads read such vectors: those that judge column 0 (dropped by left padding, or a hole there), and the span head,
whose softmax runs over all columns. They are no part of the pack, so they are computed here, beside it, layer by layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..data.batch import Batch
from .padded import PaddedRows
from .transformer import Encoded, Transformer


@dataclass(frozen=True)
class Onlookers:
    """Dropped tokens, row after row.

    sequence, columns, flat: int64 [onlookers], the packed sequence beside which each stands, its column, and row * seq
    + column; tokens: they as a `Batch`, one sequence for each packed sequence that has some.
    """

    sequence: Tensor
    columns: Tensor
    flat: Tensor
    tokens: Batch

    def __len__(self) -> int:
        return len(self.flat)


def onlookers(rows: PaddedRows, columns: int | None = None) -> Onlookers:
    """The dropped tokens among the first `columns` columns (None: all) of the rows that keep a token."""
    seq = rows.keep.shape[1]
    dropped = ~rows.keep[rows.rows]  # [sequences, seq]
    dropped[:, columns if columns is not None else seq :] = False
    counts = dropped.sum(dim=1)
    has_some = counts > 0
    sequence, column = dropped.nonzero(as_tuple=True)  # [onlookers] each, row after row
    flat = rows.rows[sequence] * seq + column
    cu_seqlens = torch.zeros(int(has_some.sum()) + 1, dtype=torch.int32)
    cu_seqlens[1:] = counts[has_some].cumsum(0)
    types = rows.token_type_ids
    tokens = Batch(
        input_ids=rows.input_ids.reshape(-1)[flat],
        cu_seqlens=cu_seqlens,
        position_ids=rows.position_ids.reshape(-1)[flat],
        token_type_ids=None if types is None else types.reshape(-1)[flat],
    )
    return Onlookers(sequence, column, flat, tokens)


def encode_onlookers(encoder: Transformer, rows: PaddedRows, encoded: Encoded, beside: Onlookers) -> Tensor:
    """Their last hidden states: float [onlookers, hidden].

    encoded: of the pack, with hidden_states unless there are no onlookers.
    """
    if not len(beside) or encoded.hidden_states is None:
        return encoded.hidden[:0]
    tokens = beside.tokens
    token = encoder.embeddings(tokens.input_ids, tokens.position_ids, tokens.token_type_ids, encoded.hidden.dtype)
    starts = rows.batch.cu_seqlens.tolist()
    spans = [slice(starts[index], starts[index + 1]) for index in beside.sequence.unique().tolist()]
    own = beside.columns.split(tokens.lengths)
    distances = [rows.columns[span][None, :] - mine[:, None] for mine, span in zip(own, spans, strict=True)]
    for layer, hidden in zip(encoder.in_order, encoded.hidden_states[:-1], strict=True):
        parts = zip(token.split(tokens.lengths), spans, distances, strict=True)
        token = torch.cat([layer.look(part, hidden[span], encoder.relative, far) for part, span, far in parts])
    return token
