"""PaddedNetwork: a model as a function of padded tensors alone, which torch.export can trace.

It runs the modules of the model itself on [batch, seq, hidden]; only attention differs from the packed path (see
`attention`). There is no second implementation of a layer or a head.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.errors import ModelFolderError
from ..models.config import ModelConfig
from ..models.heads import ChoiceHead, SpanHead, TokenClassificationHead, TokenCrfHead, VectorHead
from ..models.model import Model, SentenceSettings
from ..models.padded_call import SECOND_HEAD
from ..models.pretraining_heads import (
    BidirectionalLanguageModelHead,
    MaskedLanguageModelHead,
    NextSentenceHead,
    PretrainingHead,
    ReplacedTokenHead,
)
from ..models.questions import forbid, in_question
from .attention import angle_tables, most_tokens, padded_executors
from .padding import IDS, MASK, TYPES

STATES, EMBEDDING, POOLED, LOGITS = "last_hidden_state", "sentence_embedding", "pooler_output", "logits"


class PaddedNetwork(nn.Module):
    """The graph of a model: input_ids, attention_mask and, with segments, token_type_ids to its outputs.

    inputs: int64 [batch, seq] each, [batch, choices, seq] for multiple choice; the mask is 1 for tokens, and padding is
    at the right. outputs: their names, in order.

    Raises ModelFolderError for a model that has no graph.
    """

    name = "model"

    def __init__(self, model: Model, declared: SentenceSettings | None = None) -> None:
        super().__init__()
        check_exportable(model)
        self.model = model
        self.declared = declared or SentenceSettings()
        self.inputs = input_names(model)
        self.outputs: tuple[str, ...] = output_names(model)
        self.rank = 3 if isinstance(model.head, ChoiceHead) else 2  # axes of an input
        self.angles = angle_tables(model.config)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """inputs: int64 [batch, seq], in the order of `inputs`. Returns the outputs in the order of `outputs`."""
        given = dict(zip(self.inputs, inputs, strict=True))
        ids, mask, types = given[IDS], given[MASK], given.get(TYPES)
        if isinstance(self.model.head, ChoiceHead):
            batch, choices, length = ids.shape
            flat = {name: one.reshape(batch * choices, length) for name, one in given.items()}
            scores = self._rows(flat[IDS], flat[MASK], flat.get(TYPES))[0]  # [batch * choices, 1]
            return (scores.view(batch, choices),)
        return self._rows(ids, mask, types)

    def axes(self, name: str) -> list[str | int]:  # noqa: PLR0911  # one line per kind of output
        """The axes of an input or output; a number is a fixed size."""
        model, config = self.model, self.model.config
        if name in self.inputs:
            return ["batch", "choices", "sequence"] if self.rank == 3 else ["batch", "sequence"]
        if name == STATES:
            return ["batch", "sequence", config.hidden_size]
        if name in (EMBEDDING, POOLED):
            return ["batch", config.hidden_size]
        if name in ("start_logits", "end_logits") or isinstance(model.head, ReplacedTokenHead):
            return ["batch", "sequence"]
        if isinstance(model.head, ChoiceHead):
            return ["batch", "choices"]
        if isinstance(model.head, TokenClassificationHead):
            return ["batch", "sequence", model.num_labels]
        if isinstance(model.head, MaskedLanguageModelHead) or name == "prediction_logits":
            return ["batch", "sequence", config.vocab_size]
        if isinstance(model.head, NextSentenceHead | PretrainingHead):
            return ["batch", 2]
        return ["batch", model.num_labels or 1]

    def _rows(self, ids: Tensor, mask: Tensor, types: Tensor | None) -> tuple[Tensor, ...]:
        """ids, mask, types: int64 [batch, seq]."""
        rows = Rows(ids, mask != 0)
        if isinstance(self.model.head, SpanHead) and self.model.config.question_sep_token_id is not None:
            types = (~in_question(ids, self.model.config.question_sep_token_id)).long()
        hidden = self._encode(rows, types)
        return tuple(one.float() for one in self._heads(hidden, rows))

    def _encode(self, rows: Rows, types: Tensor | None) -> Tensor:
        """The last layer: float [batch, seq, hidden]. types: int64 [batch, seq]."""
        stack, config = self.model.encoder, self.model.config
        hidden = stack.embeddings(rows.ids, rows.positions(config), types, self.model.compute_dtype)
        attending = padded_executors(config, rows.keep, self.model.compute_dtype, stack.relatives, self.angles)
        states = [hidden]
        for layer, executor in zip(stack.in_order, attending, strict=True):
            hidden, _ = layer(hidden, (), False, executor)
            states.append(hidden)
        states[-1] = hidden = stack.finish(hidden)
        mix = None if self.model.top is None else self.model.top.mix
        return hidden if mix is None else mix(states)

    def _heads(self, hidden: Tensor, rows: Rows) -> tuple[Tensor, ...]:
        """hidden: float [batch, seq, hidden]."""
        model, head = self.model, self.model.head
        if head is None:
            found = (hidden, rows.pooled(hidden, self.declared))
            return (*found, self._pooler(hidden, rows)) if model.has_pooler else found
        if isinstance(head, VectorHead):
            return (head(self._vector(hidden, rows)),)
        if isinstance(head, SpanHead):
            return self._spans(head(hidden), rows)
        if isinstance(head, TokenClassificationHead | ReplacedTokenHead):
            return (head(hidden),)
        if isinstance(head, NextSentenceHead):
            return (model.nsp_logits(self._pooler(hidden, rows)),)
        words = model.mlm_logits(hidden)  # [batch, seq, vocab]
        return (words, model.nsp_logits(self._pooler(hidden, rows))) if isinstance(head, PretrainingHead) else (words,)

    def _vector(self, hidden: Tensor, rows: Rows) -> Tensor:
        """The input of a sequence head: float [batch, hidden]."""
        head: Any = self.model.head
        if head.needs_pooler:
            return self._pooler(hidden, rows)
        if head.takes_mean:
            return rows.pooled(hidden, SentenceSettings())
        return rows.first_or_last(hidden, self.model.config)

    def _pooler(self, hidden: Tensor, rows: Rows) -> Tensor:
        return self.model.encoder.pool(rows.first_or_last(hidden, self.model.config))

    def _spans(self, spans: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """spans: float [batch, seq, 2]. Returns start and end logits [batch, seq]."""
        sep = self.model.config.question_sep_token_id
        if sep is not None:
            is_first = torch.arange(rows.ids.shape[1], device=spans.device) == 0
            spans = forbid(spans, in_question(rows.ids, sep), is_first[None])
        start, end = spans.unbind(-1)
        return start, end


class Rows:
    """Padded rows. ids: int64 [batch, seq]; keep: bool [batch, seq]."""

    def __init__(self, ids: Tensor, keep: Tensor) -> None:
        self.ids, self.keep = ids, keep

    def positions(self, config: ModelConfig) -> Tensor:
        """Positions from 0: int64 [1, seq]; where they have an offset [batch, seq], -1 for padding."""
        if config.position_offset:
            kept = self.keep.long()
            return kept.cumsum(dim=1) * kept - 1
        return torch.arange(self.ids.shape[1], device=self.ids.device)[None]

    def first_or_last(self, hidden: Tensor, config: ModelConfig) -> Tensor:
        """The first token of each row, or with causal attention its last one: float [batch, hidden]."""
        if not config.pools_last_token:
            return hidden[:, 0]
        columns = torch.arange(self.ids.shape[1], device=hidden.device)
        last = (self.keep * columns).argmax(dim=1)  # [batch]
        return hidden.gather(1, last[:, None, None].expand(-1, 1, hidden.shape[-1])).squeeze(1)

    def pooled(self, hidden: Tensor, declared: SentenceSettings) -> Tensor:
        """Sentence embeddings: float32 [batch, dimensions]. hidden: float [batch, seq, hidden]."""
        rows, keep = hidden.float(), self.keep[..., None]  # [batch, seq, 1]
        rows = F.normalize(rows, dim=-1) if declared.normalize_tokens else rows
        if declared.pooling == "cls":
            vectors = rows[:, 0]
        elif declared.pooling == "max":
            vectors = rows.masked_fill(~keep, torch.finfo(rows.dtype).min).amax(dim=1)
        else:
            # Divided before the sum, which would be beyond the largest float16 in a long text.
            vectors = (rows * (keep / keep.sum(dim=1, keepdim=True).clamp(min=1))).sum(dim=1)
        vectors = F.normalize(vectors, dim=-1) if declared.normalize else vectors
        return vectors if declared.dimensions is None else vectors[:, : declared.dimensions]


def check_exportable(model: Model) -> None:
    """Raises ModelFolderError, which names the reason, for a model that has no graph."""
    config, head = model.config, model.head
    reasons = {
        "a character-level network": bool(config.character_width),
        f"a recurrent network ({config.recurrent})": config.recurrent is not None,
        "the recurrent layers between encoder and head (top_layers)": config.top_layers > 0,
        "the CRF, which decodes the tags of a sentence together": isinstance(head, TokenCrfHead),
        "separate forward and backward language models": isinstance(head, BidirectionalLanguageModelHead),
    }
    for what, applies in reasons.items():
        if applies:
            raise ModelFolderError(
                f"This model cannot be exported: {what} has no graph. Use it with maskwright itself."
            )
    most_tokens(config)


def input_names(model: Model) -> tuple[str, ...]:
    """The inputs of the graph, in order."""
    finds_segments = isinstance(model.head, SpanHead) and model.config.question_sep_token_id is not None
    return (IDS, MASK, TYPES) if model.config.type_vocab_size > 1 and not finds_segments else (IDS, MASK)


def output_names(model: Model) -> tuple[str, ...]:
    """The outputs of the graph, in order."""
    head = model.head
    if head is None:
        return (STATES, EMBEDDING, *((POOLED,) if model.has_pooler else ()))
    if isinstance(head, SpanHead):
        return "start_logits", "end_logits"
    if isinstance(head, PretrainingHead):
        return "prediction_logits", SECOND_HEAD[model.config.pair_objective][0]
    return (LOGITS,)
