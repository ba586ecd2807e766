"""Masked query tokens: tokens excluded by the attention mask whose vectors are needed nonetheless.

transformers computes every column: a masked token attends to the unmasked tokens of its row, and no token attends to
it. Two kinds of heads use such vectors: those on column 0 (masked by left padding, or a gap there), and the span head,
whose softmax runs over all columns. They are not part of the pack and are computed here, layer by layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..data.batch import Batch
from ..nn.masked_queries import MaskedQueryContext
from ..nn.rotary import Angles
from ..nn.sparse_rules import AttentionRule, PublishedBigBird, SlidingWindow
from .attention_rules import angles_of, rule_of
from .padded import PaddedRows
from .transformer import Encoded, Transformer


@dataclass(frozen=True)
class MaskedQueries:
    """Masked tokens, row by row.

    sequence, columns, flat: int64 [queries], index of their packed sequence, column, and row * seq + column; tokens:
    the tokens as a `Batch`, one sequence per packed sequence that has any.
    """

    sequence: Tensor
    columns: Tensor
    flat: Tensor
    tokens: Batch

    def __len__(self) -> int:
        return len(self.flat)


def find_masked_queries(rows: PaddedRows, columns: int | None = None, whole_rows: bool = False) -> MaskedQueries:
    """Returns the masked tokens among the first `columns` columns (None: all) of rows with an unmasked token.

    whole_rows: for a row with such a token, return all of its masked tokens.
    """
    seq = rows.keep.shape[1]
    dropped = ~rows.keep[rows.rows]  # [sequences, seq]
    end = seq if columns is None else columns
    if whole_rows:
        dropped &= dropped[:, :end].any(dim=1, keepdim=True)
    else:
        dropped[:, end:] = False
    counts = dropped.sum(dim=1)
    has_some = counts > 0
    sequence, column = dropped.nonzero(as_tuple=True)  # [queries] each, row by row
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
    return MaskedQueries(sequence, column, flat, tokens)


def encode_masked_queries(encoder: Transformer, rows: PaddedRows, encoded: Encoded, beside: MaskedQueries) -> Tensor:
    """The last hidden states of masked query tokens: float [queries, hidden].

    encoded: output for the pack, with hidden_states if there are such tokens.
    """
    if not len(beside) or encoded.hidden_states is None:
        return encoded.hidden[:0]
    tokens = beside.tokens
    token = encoder.embeddings(tokens.input_ids, tokens.position_ids, tokens.token_type_ids, encoded.hidden.dtype)
    config, seq, dtype = encoder.config, rows.keep.shape[1], encoded.hidden.dtype
    starts = rows.batch.cu_seqlens.tolist()
    spans = [slice(starts[index], starts[index + 1]) for index in beside.sequence.unique().tolist()]
    own = beside.columns.split(tokens.lengths)
    distances = [rows.columns[span][None, :] - mine[:, None] for mine, span in zip(own, spans, strict=True)]
    angles, their_angles = (
        angles_of(config, tokens.position_ids, dtype),
        angles_of(config, rows.batch.position_ids, dtype),
    )
    depths = zip(encoder.in_order, encoded.hidden_states[:-1], encoder.relatives, angles, their_angles, strict=True)
    for depth, (layer, hidden, relative, own_turn, their_turn) in enumerate(depths):
        rule = rule_of(config, depth, encoder.training)
        causal = config.attention == "causal"
        attended, first = [], 0
        for part, span, far in zip(token.split(tokens.lengths), spans, distances, strict=True):
            mine = slice(first, first + len(part))
            first = mine.stop
            masking = MaskedQueryContext(
                relative, far, _cut(own_turn, mine), _cut(their_turn, span), *_view(rule, causal, far, seq)
            )
            attended.append(layer.attend_masked_queries(part, hidden[span], masking))
        token = torch.cat(attended)
    return encoder.finish(token)


def _view(rule: AttentionRule | None, causal: bool, distances: Tensor, seq: int) -> tuple[Tensor | None, str]:
    """The tokens visible to a masked token, as in transformers: bool [queries, length] or None for all, and the context
    of a token without visible ones. distances: int64 [queries, length].
    """
    if causal:
        return distances <= 0, "mean"
    if isinstance(rule, SlidingWindow):
        return distances.abs() <= rule.half_width, "mean"
    if isinstance(rule, PublishedBigBird) and not rule.is_full_at(seq):
        return torch.zeros_like(distances, dtype=torch.bool), "zero"
    return None, "mean"


def _cut(angles: Angles | None, span: slice) -> Angles | None:
    """The angles of a range of tokens: [tokens, head_dim / 2] each."""
    return None if angles is None else (angles[0][span], angles[1][span])
