"""The padded call: rows in, transformers' fields out, by way of the pack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from ..core.errors import InputError
from .first_column import dropped_firsts, first_column
from .heads import Head, MaskedLanguageModelHead, NextSentenceHead, PretrainingHead, SequenceClassificationHead
from .losses import IGNORED, cross_entropy, sequence_loss
from .output import ModelOutput
from .padded import PaddedRows

if TYPE_CHECKING:
    from .model import Model


def padded_call(
    model: Model,
    rows: PaddedRows,
    labels: Tensor | None,
    next_sentence_label: Tensor | None,
    *,
    hidden_states: bool,
    attentions: bool,
) -> ModelOutput:
    """Encode the rows' pack, spread the results to [batch, seq, ...]; arguments and fields as in `Model.forward`."""
    model.check(rows.batch)
    blind, tokens = dropped_firsts(rows)
    beside = model.has_pooler and tokens.num_tokens > 0
    encoded = model.encode(rows.batch, hidden_states=hidden_states or beside, attentions=attentions)
    pooled = None
    if model.has_pooler:
        model.check(tokens)
        pooled = model.encoder.pool(first_column(model.encoder, rows, encoded, blind, tokens))
    logits = _logits(model, encoded.hidden, pooled, rows)
    states, weights, heads = encoded.hidden_states, encoded.attentions, model.config.num_attention_heads
    return ModelOutput(
        last_hidden_state=rows.spread_tokens(encoded.hidden),
        pooler_output=None if pooled is None else rows.spread_sequences(pooled),
        hidden_states=tuple(map(rows.spread_tokens, states)) if states is not None and hidden_states else None,
        attentions=None if weights is None else tuple(rows.spread_attention(layer, heads) for layer in weights),
        loss=_loss(model.head, logits, labels, next_sentence_label, rows),
        **logits,
    )


def _loss(
    head: Head | None,
    logits: dict[str, Tensor],
    labels: Tensor | None,
    next_sentence_label: Tensor | None,
    rows: PaddedRows,
) -> Tensor | None:
    """The head's loss, as transformers computes it: [], or None where a label that it needs is not given."""
    if labels is None:
        return None
    if head is None:
        raise InputError("A bare encoder has no loss: build or load it with a head, or leave labels out.")
    if isinstance(head, SequenceClassificationHead):
        return sequence_loss(logits["logits"], labels, head.problem_type)
    if isinstance(head, NextSentenceHead):
        return cross_entropy(logits["logits"], labels.reshape(-1), "labels")
    if labels.shape != rows.keep.shape:
        raise InputError(f"labels have shape {list(labels.shape)}; input_ids have {list(rows.keep.shape)}.")
    words = labels.masked_fill(~rows.keep, IGNORED).reshape(-1)  # [batch * seq]
    if isinstance(head, MaskedLanguageModelHead):
        return cross_entropy(logits["logits"].flatten(0, 1), words, "labels")
    if next_sentence_label is None:
        return None
    mlm = cross_entropy(logits["prediction_logits"].flatten(0, 1), words, "labels")
    return mlm + cross_entropy(
        logits["seq_relationship_logits"], next_sentence_label.reshape(-1), "next_sentence_label"
    )


def _logits(model: Model, hidden: Tensor, pooled: Tensor | None, rows: PaddedRows) -> dict[str, Tensor]:
    """Padded logits by transformers' names."""
    if isinstance(model.head, MaskedLanguageModelHead):
        return {"logits": rows.spread_tokens(model.mlm_logits(hidden))}
    if pooled is None or model.head is None:
        return {}
    if isinstance(model.head, PretrainingHead):
        return {
            "prediction_logits": rows.spread_tokens(model.mlm_logits(hidden)),
            "seq_relationship_logits": rows.spread_sequences(model.nsp_logits(pooled)),
        }
    return {"logits": rows.spread_sequences(model.head(pooled))}
