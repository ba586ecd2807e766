"""Conversion between padded rows, in transformers' shapes, and packs.

The packed computation contains no padding tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.errors import InputError
from ..data.batch import Batch


class PaddedRows:
    """Validated padded rows, and the index of each of their unmasked tokens in the pack.

    Rows are packed shortest first, so that attention finds runs of equal length; fully masked rows are skipped.
    input_ids, token_type_ids (or None), position_ids: int64 [batch, seq]; keep: bool [batch, seq]; rows: int64
    [sequences], the row of each packed sequence; columns: int64 [tokens], the column of each packed token; flat: int64
    [tokens], row * seq + column of each; batch: the pack.
    """

    def __init__(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        position_offset: int = 0,
        depends_on_padding: bool = False,
    ) -> None:
        """input_ids, token_type_ids: int [batch, seq]; attention_mask: 1 keeps, 0 drops (default: keep all);
        position_ids: int [batch, seq], [1, seq] or [seq], rows of the position table, default: the column.

        position_offset: of the model; if not 0, default positions count the non-padding tokens (RoBERTa).
        depends_on_padding: whether to record columns also for rows that are masked at the start only. Raises InputError
        for other shapes.
        """
        _check_ids(input_ids)
        self.input_ids = input_ids.long()
        self.keep = _keep(attention_mask, input_ids)
        self.token_type_ids = _token_types(token_type_ids, input_ids)
        self.position_ids = _positions(position_ids, input_ids, position_offset)
        lengths = self.keep.sum(dim=1)  # [batch]
        rows = torch.argsort(lengths, stable=True)
        self.rows = rows[lengths[rows] > 0]  # [sequences]
        sequence, column = self.keep[self.rows].nonzero(as_tuple=True)  # [tokens] each, in pack order
        self.columns = column
        self.flat = self.rows[sequence] * input_ids.shape[1] + column
        cu_seqlens = torch.zeros(len(self.rows) + 1, dtype=torch.int32)
        cu_seqlens[1:] = lengths[self.rows].cumsum(0)
        types = self.token_type_ids
        self.batch = Batch(
            input_ids=self.input_ids.reshape(-1)[self.flat],
            cu_seqlens=cu_seqlens,
            position_ids=self.position_ids.reshape(-1)[self.flat],
            token_type_ids=None if types is None else types.reshape(-1)[self.flat],
            places=None if _side_by_side(column, lengths[self.rows], depends_on_padding) else column,
        )

    def spread_tokens(self, values: Tensor) -> Tensor:
        """[tokens, ...] to [batch, seq, ...]; masked tokens are 0."""
        num_rows, seq = self.keep.shape
        padded = values.new_zeros((num_rows * seq, *values.shape[1:])).index_copy(0, self.flat, values)
        return padded.view(num_rows, seq, *values.shape[1:])

    def spread_flat(self, values: Tensor, flat: Tensor, beside: Tensor) -> Tensor:
        """Like `spread_tokens`, with values of masked tokens, too. `beside`: [queries, ...] at index flat [queries]."""
        num_rows, seq = self.keep.shape
        both, where = torch.cat([values, beside]), torch.cat([self.flat, flat])
        padded = both.new_zeros((num_rows * seq, *values.shape[1:])).index_copy(0, where, both)
        return padded.view(num_rows, seq, *values.shape[1:])

    def spread_sequences(self, values: Tensor) -> Tensor:
        """[sequences, ...] to [batch, ...]; fully masked rows are 0."""
        return values.new_zeros((self.keep.shape[0], *values.shape[1:])).index_copy(0, self.rows, values)

    def spread_attention(self, weights: tuple[Tensor, ...], num_heads: int) -> Tensor:
        """A layer's weights, [heads, length, length] per sequence, to [batch, heads, seq, seq], 0 if masked."""
        num_rows, seq = self.keep.shape
        like = weights[0] if weights else torch.zeros(())
        padded = like.new_zeros((num_rows, num_heads, seq, seq))
        for row, one in zip(self.rows.tolist(), weights, strict=True):
            columns = self.keep[row].nonzero().squeeze(1)
            padded[row, :, columns[:, None], columns] = one
        return padded


def _check_ids(input_ids: Tensor) -> None:
    if not isinstance(input_ids, Tensor) or input_ids.ndim != 2:
        given = f"shape {list(input_ids.shape)}" if isinstance(input_ids, Tensor) else type(input_ids).__name__
        raise InputError(f"input_ids must be a tensor [batch, seq], not {given}: wrap one text as ids[None, :].")
    if input_ids.is_floating_point() or input_ids.dtype == torch.bool:
        raise InputError(f"input_ids must be integers, not {str(input_ids.dtype).removeprefix('torch.')}.")


def _keep(attention_mask: Tensor | None, input_ids: Tensor) -> Tensor:
    """The mask as bool [batch, seq]."""
    if attention_mask is None:
        return torch.ones_like(input_ids, dtype=torch.bool)
    _check_shape("attention_mask", attention_mask, input_ids.shape)
    keep = attention_mask == 1
    if not torch.equal(keep, attention_mask != 0):
        raise InputError("attention_mask contains values other than 0 and 1: 1 keeps a token, 0 drops it.")
    return keep


def _token_types(token_type_ids: Tensor | None, input_ids: Tensor) -> Tensor | None:
    if token_type_ids is None:
        return None
    _check_shape("token_type_ids", token_type_ids, input_ids.shape)
    return token_type_ids.long()


def _positions(position_ids: Tensor | None, input_ids: Tensor, offset: int) -> Tensor:
    """Positions counted from 0 as int64 [batch, seq]; -1 for padding where the model's positions have an offset."""
    shape = input_ids.shape
    if position_ids is None:
        if offset:
            is_token = input_ids != offset - 1  # the padding token's id is its row in the position table
            return is_token.long().cumsum(dim=1) * is_token - 1
        position_ids = torch.arange(shape[1], device=input_ids.device)
    elif position_ids.shape not in (shape, (1, shape[1]), (shape[1],)):
        _check_shape("position_ids", position_ids, shape)
    return position_ids.long().expand(shape) - offset


def _side_by_side(columns: Tensor, lengths: Tensor, from_start: bool) -> bool:
    """Whether the unmasked tokens of every row are contiguous, and start at column 0 if from_start.

    columns: int64 [tokens] of rows of `lengths` [sequences].
    """
    ends = lengths.cumsum(0)[:-1]  # where the next row begins
    if from_start and len(columns) and (columns[0] != 0 or bool((columns[ends] != 0).any())):
        return False
    if len(columns) < 2:
        return True
    steps = columns.diff()
    steps[ends - 1] = 1
    return bool((steps == 1).all())


def _check_shape(name: str, tensor: Tensor, shape: torch.Size) -> None:
    if tensor.shape != shape:
        raise InputError(f"{name} has shape {list(tensor.shape)}, but input_ids has {list(shape)}: they must match.")
