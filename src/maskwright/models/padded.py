"""Padded rows, in transformers' shapes, to packs and back, and the padded call of a model."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Protocol

import torch
from torch import Tensor

from ..core.errors import InputError
from ..data.batch import Batch
from ..nn.masked_queries import MaskedQueryContext
from ..nn.positions import Angles
from ..nn.sparse import AttentionRule, PublishedBigBird, SlidingWindow
from .config import ModelConfig
from .heads import (
    IGNORED,
    ChoiceHead,
    Head,
    LayerMixHead,
    SequenceClassificationHead,
    SpanHead,
    TokenClassificationHead,
    TokenCrfHead,
    VectorHead,
    check_labels,
    cross_entropy,
    forbid,
    in_question,
    replaced_token_loss,
    sequence_loss,
    span_loss,
)
from .pooling import mean_of
from .pretraining_heads import (
    BidirectionalLanguageModelHead,
    CausalLanguageModelHead,
    MaskedLanguageModelHead,
    NextSentenceHead,
    PretrainingHead,
    ReplacedTokenHead,
)
from .probes import AutoencoderHead
from .transformer import Encoded, Transformer, angles_of, depends_on_padding, rule_of

# -- Output of a padded call, in transformers' names and shapes ------------------------------------------------------


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


# -- Conversion between padded rows, in transformers' shapes, and packs ----------------------------------------------
#
# The packed computation contains no padding tokens.


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


# -- Masked query tokens: tokens excluded by the attention mask whose vectors are needed nonetheless -----------------
#
# transformers computes every column: a masked token attends to the unmasked tokens of its row, and no token attends to
# it. Two kinds of heads use such vectors: those on column 0 (masked by left padding, or a gap there), and the span
# head, whose softmax runs over all columns. They are not part of the pack and are computed here, layer by layer.


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


# -- The padded call: packs rows, runs the model, and returns padded outputs in transformers' fields -----------------


Inputs = tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]  # ids, mask, token types, positions
Fields = dict[str, Any]
SECOND_HEAD = {"nsp": ("seq_relationship_logits", "next_sentence_label"), "sop": ("sop_logits", "sentence_order_label")}


class PaddedModel(Protocol):
    """The part of `Model` that the padded call needs."""

    config: ModelConfig
    encoder: Transformer
    top: LayerMixHead | None
    head: Head | None

    @property
    def has_pooler(self) -> bool:
        """Whether there is a pooler."""

    def check(self, batch: Batch) -> None:
        """Raises InputError for inputs out of range."""

    def encode(
        self, batch: Batch, *, hidden_states: bool = False, attentions: bool = False, row_length: int | None = None
    ) -> Encoded:
        """Encodes a pack."""

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        """Logits over the vocabulary: [positions, vocab]."""

    def nsp_logits(self, pooled: Tensor) -> Tensor:
        """Logits of sentence pairs: [sequences, 2]."""


@dataclass(frozen=True)
class Targets:
    """Labels in transformers' names; None for those that a head does not use."""

    labels: Tensor | None = None
    next_sentence_label: Tensor | None = None
    sentence_order_label: Tensor | None = None
    start_positions: Tensor | None = None
    end_positions: Tensor | None = None

    def given(self) -> bool:
        """Whether any label is set."""
        return any(getattr(self, field.name) is not None for field in fields(self))


@dataclass(frozen=True)
class _Vectors:
    """Input vectors of the heads: of unmasked tokens, and of masked ones that are needed."""

    rows: PaddedRows
    kept: Tensor  # [tokens, hidden]
    beside: MaskedQueries
    dropped: Tensor  # [queries, hidden]
    pools_last_token: bool = False

    def first(self) -> Tensor:
        """Vectors of column 0 of each packed row, masked or not; or of its last token: float [sequences, hidden]."""
        if self.pools_last_token:
            return self.kept[self.rows.batch.last_tokens]
        first = self.kept[self.rows.batch.first_tokens]
        at_start = self.beside.columns == 0
        return first.index_copy(0, self.beside.sequence[at_start], self.dropped[at_start])

    def sequence_vectors(self, head: VectorHead) -> Tensor:
        """The input of a sequence head without pooler: float [sequences, hidden]."""
        if head.takes_mean:
            return mean_of(self.kept, self.rows.batch)
        is_kept = head.first_kept and not self.pools_last_token
        return self.kept[self.rows.batch.first_tokens] if is_kept else self.first()

    def columns(self, values: Tensor, beside: Tensor) -> Tensor:
        """[tokens, ...] and [queries, ...] to [batch, seq, ...]."""
        return self.rows.spread_flat(values, self.beside.flat, beside)


def padded_call(
    model: PaddedModel, inputs: Inputs, targets: Targets, *, hidden_states: bool, attentions: bool
) -> ModelOutput:
    """Encodes padded rows as a pack and returns [batch, seq, ...]; see `Model.forward` for arguments and fields."""
    choices = 0
    if isinstance(model.head, ChoiceHead):
        inputs, choices = _flat_choices(inputs)
    question = _question(model, inputs)
    if question is not None and inputs[2] is None:
        inputs = (inputs[0], inputs[1], (~question).long(), inputs[3])
    config = model.config
    rows = PaddedRows(*inputs, position_offset=config.position_offset, depends_on_padding=depends_on_padding(config))
    model.check(rows.batch)
    beside = find_masked_queries(rows, _columns_read(model), whole_rows=config.attention in ("window", "causal"))
    if len(beside):
        model.check(beside.tokens)
    encoded = model.encode(
        rows.batch,
        hidden_states=hidden_states or len(beside) > 0,
        attentions=attentions,
        row_length=rows.keep.shape[1],
    )
    dropped = encode_masked_queries(model.encoder, rows, encoded, beside)
    vectors = _Vectors(rows, encoded.hidden, beside, dropped, config.pools_last_token)
    pooled = model.encoder.pool(vectors.first()) if model.has_pooler else None
    logits = _logits(model, vectors, pooled, question)
    if choices:
        logits = {"logits": logits["logits"].view(-1, choices)}  # [batch, choices]
    return ModelOutput(
        last_hidden_state=rows.spread_tokens(encoded.hidden),
        pooler_output=None if pooled is None else rows.spread_sequences(pooled),
        loss=_loss(model, logits, targets, rows) if targets.given() else None,
        **_views(model, encoded, rows, hidden_states),
        **logits,
    )


def _flat_choices(inputs: Inputs) -> tuple[Inputs, int]:
    """[batch, choices, seq] to [batch * choices, seq], and the number of choices."""
    ids, *others = inputs
    if not isinstance(ids, Tensor) or ids.ndim != 3:
        raise InputError("input_ids must be a tensor [batch, choices, seq] for a multiple-choice model.")
    mask, types, positions = (None if one is None else one.reshape(-1, one.shape[-1]) for one in others)
    return (ids.flatten(0, 1), mask, types, positions), ids.shape[1]


def _question(model: PaddedModel, inputs: Inputs) -> Tensor | None:
    """Mask of the question's columns for a span head: bool [batch, seq]; None for other heads."""
    sep, ids = model.config.question_sep_token_id, inputs[0]
    if sep is None or not isinstance(model.head, SpanHead) or not isinstance(ids, Tensor) or ids.ndim != 2:
        return None
    return in_question(ids, sep)


def _columns_read(model: PaddedModel) -> int | None:
    """Number of leading columns that the head uses even if they are masked; None for all."""
    if _reads_kept_alone(model):
        return 0
    if isinstance(model.head, SpanHead):
        return None
    if model.config.pools_last_token:
        return 0
    if isinstance(model.head, VectorHead) and (model.head.takes_mean or model.head.first_kept):
        return 0
    return 1 if model.has_pooler or isinstance(model.head, VectorHead) else 0


def _reads_kept_alone(model: PaddedModel) -> bool:
    """Whether masked tokens have no vector at all, because LSTMs skip them."""
    return model.config.recurrent is not None or model.top is not None


def _views(model: PaddedModel, encoded: Encoded, rows: PaddedRows, hidden_states: bool) -> Fields:
    """Hidden states and attention weights of all layers, padded."""
    states, weights, heads = encoded.hidden_states, encoded.attentions, model.config.num_attention_heads
    return {
        "hidden_states": tuple(map(rows.spread_tokens, states)) if states is not None and hidden_states else None,
        "attentions": None if weights is None else tuple(rows.spread_attention(layer, heads) for layer in weights),
    }


def _logits(model: PaddedModel, vectors: _Vectors, pooled: Tensor | None, question: Tensor | None) -> Fields:
    """Padded logits in transformers' names."""
    head, rows = model.head, vectors.rows
    if isinstance(head, VectorHead):
        sequence_vectors = pooled if head.needs_pooler and pooled is not None else vectors.sequence_vectors(head)
        return {"logits": rows.spread_sequences(head(sequence_vectors))}
    if isinstance(head, SpanHead):
        spans = vectors.columns(head(vectors.kept), head(vectors.dropped))  # [batch, seq, 2]
        if _reads_kept_alone(model):
            spans = spans.masked_fill(~rows.keep[..., None], torch.finfo(spans.dtype).min)
        if question is not None:
            is_first = torch.zeros_like(question)
            is_first[:, 0] = True
            spans = forbid(spans, question, is_first)
        start, end = spans.unbind(-1)  # [batch, seq] each
        return {"start_logits": start, "end_logits": end}
    if isinstance(head, TokenClassificationHead | ReplacedTokenHead):
        return {"logits": rows.spread_tokens(head(vectors.kept))}
    found = {}
    if isinstance(head, MaskedLanguageModelHead | PretrainingHead):
        name = "prediction_logits" if isinstance(head, PretrainingHead) else "logits"
        found[name] = rows.spread_tokens(model.mlm_logits(vectors.kept))
    if isinstance(head, NextSentenceHead | PretrainingHead) and pooled is not None:
        name = SECOND_HEAD[model.config.pair_objective][0] if isinstance(head, PretrainingHead) else "logits"
        found[name] = rows.spread_sequences(model.nsp_logits(pooled))
    return found


def _loss(model: PaddedModel, logits: Fields, targets: Targets, rows: PaddedRows) -> Tensor | None:
    """The head's loss, as in transformers: [], or None if a required label is missing."""
    head, labels = model.head, targets.labels
    if head is None:
        raise InputError("A bare encoder has no loss: build or load it with a head, or pass no labels.")
    if isinstance(head, SpanHead):
        starts, ends = targets.start_positions, targets.end_positions
        if starts is not None and ends is not None:
            return span_loss(logits["start_logits"], logits["end_logits"], starts, ends)
        return None
    if labels is None:
        return None
    if isinstance(head, AutoencoderHead):
        raise InputError("An anomaly model needs no labels: its logits are the errors minimized in training.")
    if isinstance(head, SequenceClassificationHead):
        return sequence_loss(logits["logits"], labels, head.problem_type)
    if isinstance(head, NextSentenceHead | ChoiceHead):
        return cross_entropy(logits["logits"], labels.reshape(-1), "labels")
    return _token_loss(model, logits, labels, targets, rows)


def _token_loss(
    model: PaddedModel, logits: Fields, labels: Tensor, targets: Targets, rows: PaddedRows
) -> Tensor | None:
    """The loss of heads with labels [batch, seq]; labels of masked tokens are ignored."""
    if labels.shape != rows.keep.shape:
        raise InputError(f"labels have shape {list(labels.shape)}, but input_ids have {list(rows.keep.shape)}.")
    if isinstance(model.head, ReplacedTokenHead):
        return replaced_token_loss(logits["logits"][rows.keep], labels[rows.keep])
    labels = labels.masked_fill(~rows.keep, IGNORED)
    if isinstance(model.head, TokenCrfHead):
        return _chain_loss(model.head, logits["logits"], labels)
    if isinstance(model.head, BidirectionalLanguageModelHead):
        both = torch.stack([_next_labels(labels, rows.keep), _previous_labels(labels, rows.keep)], dim=-1)
        return cross_entropy(logits["logits"].flatten(0, 2), both.flatten(), "labels")
    if isinstance(model.head, CausalLanguageModelHead):
        labels = _next_labels(labels, rows.keep)
    labels = labels.reshape(-1)  # [batch * seq]
    if not isinstance(model.head, PretrainingHead):
        return cross_entropy(logits["logits"].flatten(0, 1), labels, "labels")
    field, argument = SECOND_HEAD[model.config.pair_objective]
    second: Tensor | None = getattr(targets, argument)
    if second is None:
        return None
    words = cross_entropy(logits["prediction_logits"].flatten(0, 1), labels, "labels")
    return words + cross_entropy(logits[field], second.reshape(-1), argument)


def _next_labels(labels: Tensor, keep: Tensor) -> Tensor:
    """The next-token labels of each column. labels: int [batch, seq]; keep: bool [batch, seq]."""
    following = torch.full_like(labels, IGNORED)
    following[:, :-1] = labels[:, 1:]
    return following.masked_fill(~keep, IGNORED)


def _previous_labels(labels: Tensor, keep: Tensor) -> Tensor:
    """The previous-token labels of each column. labels: int [batch, seq]; keep: bool [batch, seq]."""
    return _next_labels(labels.flip(1), keep.flip(1)).flip(1)


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
