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
from ..nn.looking import Sight
from ..nn.rotary import Angles
from ..nn.sparse_rules import AttentionRule, PublishedBigBird, SlidingWindow
from .attending import angles_of, rule_of
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


def onlookers(rows: PaddedRows, columns: int | None = None, whole_rows: bool = False) -> Onlookers:
    """The dropped tokens among the first `columns` columns (None: all) of the rows that keep a token.

    whole_rows: of a row with such a token, all dropped ones.
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
        looked, first = [], 0
        for part, span, far in zip(token.split(tokens.lengths), spans, distances, strict=True):
            mine = slice(first, first + len(part))
            first = mine.stop
            sight = Sight(relative, far, _cut(own_turn, mine), _cut(their_turn, span), *_view(rule, causal, far, seq))
            looked.append(layer.look(part, hidden[span], sight))
        token = torch.cat(looked)
    return encoder.finish(token)


def _view(rule: AttentionRule | None, causal: bool, distances: Tensor, seq: int) -> tuple[Tensor | None, str]:
    """What a dropped token sees under a rule, as transformers has it: bool [onlookers, length] or None for all, and
    what it gets where it sees nothing. distances: int64 [onlookers, length].
    """
    if causal:
        return distances <= 0, "mean"
    if isinstance(rule, SlidingWindow):
        return distances.abs() <= rule.half_width, "mean"
    if isinstance(rule, PublishedBigBird) and not rule.is_full_at(seq):
        return torch.zeros_like(distances, dtype=torch.bool), "zero"
    return None, "mean"


def _cut(angles: Angles | None, span: slice) -> Angles | None:
    """The angles of some tokens: [tokens, head_dim / 2] each."""
    return None if angles is None else (angles[0][span], angles[1][span])
