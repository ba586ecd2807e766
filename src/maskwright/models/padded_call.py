"""The padded call: packs rows, runs the model, and returns padded outputs in transformers' fields."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Protocol

import torch
from torch import Tensor

from ..core.errors import InputError
from ..data.batch import Batch
from .attention_rules import depends_on_padding
from .autoencoder import AutoencoderHead
from .config import ModelConfig
from .heads import (
    ChoiceHead,
    Head,
    SequenceClassificationHead,
    SpanHead,
    TokenClassificationHead,
    TokenCrfHead,
    VectorHead,
)
from .layer_mix_head import LayerMixHead
from .losses import IGNORED, check_labels, cross_entropy, replaced_token_loss, sequence_loss, span_loss
from .masked_queries import MaskedQueries, encode_masked_queries, find_masked_queries
from .output import ModelOutput
from .padded import PaddedRows
from .pooling import mean_of
from .pretraining_heads import (
    BidirectionalLanguageModelHead,
    CausalLanguageModelHead,
    MaskedLanguageModelHead,
    NextSentenceHead,
    PretrainingHead,
    ReplacedTokenHead,
)
from .questions import forbid, in_question
from .transformer import Encoded, Transformer

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
