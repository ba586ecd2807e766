"""The padded call of a model, in transformers' names and shapes: pack the rows, encode the pack, pad the outputs.

Masked tokens are not computed. Their vectors and logits are 0, and start and end logits the lowest
number, so that a softmax over the columns gives them no share. Sequence heads take the first unmasked token of a row.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from ..core.errors import InputError
from ..data.batch import Batch
from .heads import (
    IGNORED,
    SECOND_HEAD,
    ChoiceHead,
    SequenceClassificationHead,
    SpanHead,
    TokenCrfHead,
    check_labels,
    cross_entropy,
    is_per_token,
    replaced_token_loss,
    sequence_loss,
    span_loss,
    with_segments,
)
from .pretraining_heads import (
    BidirectionalLanguageModelHead,
    CausalLanguageModelHead,
    NextSentenceHead,
    PretrainingHead,
    ReplacedTokenHead,
)
from .probes import AutoencoderHead
from .transformer import depends_on_padding

Model = Any  # models.model.Model, whose module imports this one


@dataclass(frozen=True)
class ModelOutput:
    """Fields by attribute or by name (`out.logits`, `out["logits"]`); missing fields are None.

    last_hidden_state: float [batch, seq, hidden], 0 for masked tokens;
    pooler_output: float [batch, hidden]; loss: float [];
    logits: [batch, seq, vocab] (mlm), [batch, 2] (nsp), [batch, num_labels] (classification, regression),
    [batch, seq, num_labels] (tagging), [batch, seq] (rtd), [batch, choices] (choice), [batch, 1] (anomaly);
    prediction_logits [batch, seq, vocab] and seq_relationship_logits or, for sentence order, sop_logits [batch, 2]
    (pretraining); start_logits, end_logits [batch, seq] (qa);
    hidden_states: layers + 1 tensors [batch, seq, hidden], the embeddings first;
    attentions: per layer [batch, heads, seq, seq].
    An encoder-decoder has decoder_hidden_states and decoder_attentions instead, cross_attentions: per layer [batch,
    heads, target seq, seq]; logits [batch, target seq, vocab]; encoder_last_hidden_state, encoder_hidden_states and
    encoder_attentions.
    """

    last_hidden_state: Tensor
    loss: Tensor | None = None
    logits: Tensor | None = None
    prediction_logits: Tensor | None = None
    seq_relationship_logits: Tensor | None = None
    sop_logits: Tensor | None = None
    start_logits: Tensor | None = None
    end_logits: Tensor | None = None
    pooler_output: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    decoder_hidden_states: tuple[Tensor, ...] | None = None
    decoder_attentions: tuple[Tensor, ...] | None = None
    cross_attentions: tuple[Tensor, ...] | None = None
    encoder_last_hidden_state: Tensor | None = None
    encoder_hidden_states: tuple[Tensor, ...] | None = None
    encoder_attentions: tuple[Tensor, ...] | None = None

    def __getitem__(self, name: str) -> Tensor | tuple[Tensor, ...]:
        value = getattr(self, name) if name in self.keys() else None
        if value is None:
            raise KeyError(f"{name!r}: this output contains {', '.join(self.keys())}.")
        result: Tensor | tuple[Tensor, ...] = value
        return result

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def keys(self) -> list[str]:
        """Names of the fields that are not None."""
        return [field.name for field in fields(self) if getattr(self, field.name) is not None]


class PaddedRows:
    """Validated padded rows, and the index of each of their unmasked tokens in the pack.

    Fully masked rows are not in the pack. keep: bool [batch, seq]; rows: int64 [sequences], the row of each packed
    sequence; flat: int64 [tokens], row * seq + column of each packed token; batch: the pack.
    """

    def __init__(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        global_mask: Tensor | None = None,
        *,
        position_offset: int = 0,
        depends_on_padding: bool = False,
        sort: bool = True,
    ) -> None:
        """input_ids, token_type_ids: int [batch, seq]; attention_mask: 1 keeps, 0 drops (default: keep all);
        position_ids: int [batch, seq], [1, seq] or [seq], rows of the position table, default: the column;
        global_mask: 1 for tokens with global attention, like input_ids.

        position_offset: of the model; if not 0, default positions count the non-padding tokens (RoBERTa).
        depends_on_padding: whether to record columns also for rows that are masked at the start only. sort: pack the
        shortest rows first, so that attention finds runs of equal length. Raises InputError for other shapes.
        """
        if not isinstance(input_ids, Tensor) or input_ids.ndim != 2:
            given = f"shape {list(input_ids.shape)}" if isinstance(input_ids, Tensor) else type(input_ids).__name__
            raise InputError(f"input_ids must be a tensor [batch, seq], not {given}: wrap one text as ids[None, :].")
        if input_ids.is_floating_point() or input_ids.dtype == torch.bool:
            raise InputError(f"input_ids must be integers, not {str(input_ids.dtype).removeprefix('torch.')}.")
        like_ids = {"attention_mask": attention_mask, "token_type_ids": token_type_ids}
        for name, tensor in (like_ids | {"global_attention_mask": global_mask}).items():
            if tensor is not None:
                _check_shape(name, tensor, input_ids.shape)
        self.keep = torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask == 1
        if attention_mask is not None and not torch.equal(self.keep, attention_mask != 0):
            raise InputError("attention_mask contains values other than 0 and 1: 1 keeps a token, 0 drops it.")
        positions = _positions(position_ids, input_ids.long(), position_offset)
        lengths = self.keep.sum(dim=1)  # [batch]
        rows = torch.argsort(lengths, stable=True) if sort else torch.arange(len(lengths), device=lengths.device)
        self.rows = rows[lengths[rows] > 0]  # [sequences]
        sequence, column = self.keep[self.rows].nonzero(as_tuple=True)  # [tokens] each, in pack order
        self.flat = self.rows[sequence] * input_ids.shape[1] + column
        cu_seqlens = torch.zeros(len(self.rows) + 1, dtype=torch.int32)
        cu_seqlens[1:] = lengths[self.rows].cumsum(0)
        self.batch = Batch(
            input_ids=input_ids.long().reshape(-1)[self.flat],
            cu_seqlens=cu_seqlens,
            position_ids=positions.reshape(-1)[self.flat],
            token_type_ids=None if token_type_ids is None else token_type_ids.long().reshape(-1)[self.flat],
            global_tokens=None if global_mask is None else (global_mask != 0).reshape(-1)[self.flat],
            places=None if _side_by_side(column, lengths[self.rows], depends_on_padding) else column,
        )

    def spread_tokens(self, values: Tensor, fill: float = 0.0) -> Tensor:
        """[tokens, ...] to [batch, seq, ...]; masked tokens are `fill`."""
        num_rows, seq = self.keep.shape
        padded = values.new_full((num_rows * seq, *values.shape[1:]), fill).index_copy(0, self.flat, values)
        return padded.view(num_rows, seq, *values.shape[1:])

    def spread_sequences(self, values: Tensor) -> Tensor:
        """[sequences, ...] to [batch, ...]; fully masked rows are 0."""
        return values.new_zeros((self.keep.shape[0], *values.shape[1:])).index_copy(0, self.rows, values)

    def spread_attention(self, weights: tuple[Tensor, ...], num_heads: int, keys: PaddedRows | None = None) -> Tensor:
        """A layer's weights, [heads, length, key length] per sequence, to [batch, heads, seq, key seq], 0 if masked.

        keys: the rows of the keys, by default these.
        """
        keys = keys or self
        like = weights[0] if weights else torch.zeros(())
        padded = like.new_zeros((len(self.keep), num_heads, self.keep.shape[1], keys.keep.shape[1]))
        for row, one in zip(self.rows.tolist(), weights, strict=True):
            queries, columns = (which.keep[row].nonzero().squeeze(1) for which in (self, keys))
            padded[row, :, queries[:, None], columns] = one
        return padded


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


# ids, mask, token types, positions, global mask
Inputs = tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None]


@dataclass(frozen=True)
class Targets:
    """Labels in transformers' names; None for those that a head does not use."""

    labels: Tensor | None = None
    next_sentence_label: Tensor | None = None
    sentence_order_label: Tensor | None = None
    start_positions: Tensor | None = None
    end_positions: Tensor | None = None


def padded_call(
    model: Model, inputs: Inputs, targets: Targets, *, hidden_states: bool, attentions: bool
) -> ModelOutput:
    """Encodes padded rows as a pack and returns [batch, seq, ...]; see `Model.forward` for arguments and fields."""
    config, head, choices = model.config, model.head, 0
    if isinstance(head, ChoiceHead):
        inputs, choices = _flat_choices(inputs)
    rows = PaddedRows(*inputs, position_offset=config.position_offset, depends_on_padding=depends_on_padding(config))
    batch = rows.batch if (sep := model.question_sep) is None else with_segments(rows.batch, sep)
    encoded = model.encode(batch, hidden_states=hidden_states, attentions=attentions, row_length=rows.keep.shape[1])
    pooled = model.pool(encoded.hidden, batch) if model.has_pooler else None
    logits: dict[str, Any] = {}
    for name, value in model.head_outputs(encoded.hidden, batch, pooled).items():
        fill = torch.finfo(value.dtype).min if isinstance(head, SpanHead) else 0.0
        logits[name] = rows.spread_tokens(value, fill) if is_per_token(head, name) else rows.spread_sequences(value)
    if choices:
        logits = {"logits": logits["logits"].view(-1, choices)}  # [batch, choices]
    states, weights = encoded.hidden_states, encoded.attentions
    has_targets = any(target is not None for target in vars(targets).values())
    return ModelOutput(
        last_hidden_state=rows.spread_tokens(encoded.hidden),
        pooler_output=None if pooled is None else rows.spread_sequences(pooled),
        loss=_loss(model, logits, targets, rows.keep) if has_targets else None,
        hidden_states=None if states is None else tuple(map(rows.spread_tokens, states)),
        attentions=None
        if weights is None
        else tuple(rows.spread_attention(layer, config.num_attention_heads) for layer in weights),
        **logits,
    )


def _flat_choices(inputs: Inputs) -> tuple[Inputs, int]:
    """[batch, choices, seq] to [batch * choices, seq], and the number of choices."""
    ids, *others = inputs
    if not isinstance(ids, Tensor) or ids.ndim != 3:
        raise InputError("input_ids must be a tensor [batch, choices, seq] for a multiple-choice model.")
    mask, types, positions, marks = (None if one is None else one.reshape(-1, one.shape[-1]) for one in others)
    return (ids.flatten(0, 1), mask, types, positions, marks), ids.shape[1]


def _loss(model: Model, logits: dict[str, Any], targets: Targets, keep: Tensor) -> Tensor | None:
    """The head's loss, as in transformers: [], or None if a required label is missing. keep: bool [batch, seq]."""
    head, labels = model.head, targets.labels
    if head is None:
        raise InputError("A bare encoder has no loss: build or load it with a head, or pass no labels.")
    if isinstance(head, SpanHead):
        starts, ends = targets.start_positions, targets.end_positions
        if starts is not None and ends is not None:
            return span_loss(logits["start_logits"], logits["end_logits"], starts, ends, keep)
        return None
    if labels is None:
        return None
    if isinstance(head, AutoencoderHead):
        raise InputError("An anomaly model needs no labels: its logits are the errors minimized in training.")
    if isinstance(head, SequenceClassificationHead):
        return sequence_loss(logits["logits"], labels, head.problem_type)
    if isinstance(head, NextSentenceHead | ChoiceHead):
        return cross_entropy(logits["logits"], labels.reshape(-1), "labels")
    return _token_loss(model, logits, labels, targets, keep)


def _token_loss(model: Model, logits: dict[str, Any], labels: Tensor, targets: Targets, keep: Tensor) -> Tensor | None:
    """The loss of heads with labels [batch, seq]; labels of masked tokens are ignored."""
    head = model.head
    if labels.shape != keep.shape:
        raise InputError(f"labels have shape {list(labels.shape)}, but input_ids have {list(keep.shape)}.")
    if isinstance(head, ReplacedTokenHead):
        return replaced_token_loss(logits["logits"][keep], labels[keep])
    labels = labels.masked_fill(~keep, IGNORED)
    if isinstance(head, TokenCrfHead):
        return _chain_loss(head, logits["logits"], labels)
    if isinstance(head, BidirectionalLanguageModelHead):
        previous = _next_labels(labels.flip(1), keep.flip(1)).flip(1)
        both = torch.stack([_next_labels(labels, keep), previous], dim=-1)
        return cross_entropy(logits["logits"].flatten(0, 2), both.flatten(), "labels")
    if isinstance(head, CausalLanguageModelHead):
        labels = _next_labels(labels, keep)
    if not isinstance(head, PretrainingHead):
        return cross_entropy(logits["logits"].flatten(0, 1), labels.reshape(-1), "labels")
    field, argument = SECOND_HEAD[model.config.pair_objective]
    second: Tensor | None = getattr(targets, argument)
    if second is None:
        return None
    words = cross_entropy(logits["prediction_logits"].flatten(0, 1), labels.reshape(-1), "labels")
    return words + cross_entropy(logits[field], second.reshape(-1), argument)


def _next_labels(labels: Tensor, keep: Tensor) -> Tensor:
    """The next-token labels of each column. labels: int [batch, seq]; keep: bool [batch, seq]."""
    following = torch.full_like(labels, IGNORED)
    following[:, :-1] = labels[:, 1:]
    return following.masked_fill(~keep, IGNORED)


def _chain_loss(head: TokenCrfHead, logits: Tensor, labels: Tensor) -> Tensor:
    """Negative log-likelihood of each row's tag sequence, mean per labeled token. logits: float [batch, seq, labels];
    labels: int [batch, seq].
    """
    check_labels(labels, logits.shape[-1], "labels")
    is_labeled = labels != IGNORED
    lengths = [length for length in is_labeled.sum(dim=1).tolist() if length]
    if not lengths:
        raise InputError(f"labels contain only {IGNORED}: the loss needs at least one other label.")
    loss: Tensor = head.crf.losses(logits[is_labeled], labels[is_labeled].long(), lengths).sum() / sum(lengths)
    return loss
