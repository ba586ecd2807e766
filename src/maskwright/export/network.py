"""PaddedNetwork: a model as a function of padded tensors alone, which torch.export can trace.

It runs the modules of the model itself on [batch, seq, hidden]; only attention differs from the packed path (see
`attention`). There is no second implementation of a layer or a head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.errors import ModelFolderError
from ..models.config import ModelConfig
from ..models.heads import (
    GLOBAL_HEADS,
    ChoiceHead,
    TokenCrfHead,
    global_columns,
    in_question,
    is_per_token,
    pooled_late,
)
from ..models.model import Model, SentenceSettings
from ..models.pooling import Projection
from ..models.pretraining_heads import BidirectionalLanguageModelHead
from ..models.transformer import angles_of, rule_of
from ..nn.attention import Executor, Run
from ..nn.embeddings import token_dropout
from ..nn.positions import Angles, RelativePositions, rotate
from ..nn.sparse import PublishedBigBird, SlidingWindow
from .runtimes import IDS, MASK, TYPES

# -- Attention over padded rows: the executor for exported graphs ----------------------------------------------------
#
# A graph cannot depend on the lengths of the rows in a batch, so padding is masked instead of removed. The rules are
# those of the packed executors (`models.transformer`); a test compares the two for every switch of the network.


@dataclass(frozen=True)
class RowMask:
    """Which keys a query attends to, as terms added to the scores.

    term: float [batch, 1, queries, keys], 0 or a very low number; distances: int64 [1, 1, queries, keys],
    key - query.
    """

    term: Tensor
    distances: Tensor


def row_mask(
    keep: Tensor,
    query_positions: Tensor,
    dtype: torch.dtype,
    rule: str,
    half_width: int = 0,
    is_global: Tensor | None = None,
) -> RowMask:
    """Masks padding, and what the rule excludes.

    keep: bool [batch, keys]; query_positions: int64 [queries], their columns among the keys; rule: "full", "causal" or
    "window" (`half_width` tokens to each side); is_global: bool [batch, keys], those in every window. Masked scores are
    far below all others but finite, and stay so when a score is added: a row that is padding only must not become NaN.
    """
    keys = torch.arange(keep.shape[1], device=keep.device)
    distances = (keys - query_positions[:, None])[None, None]  # [1, 1, queries, keys]
    allowed = keep[:, None, None, :]  # [batch, 1, 1, keys]
    if rule == "causal":
        allowed = allowed & (distances <= 0)
    elif rule == "window":
        near = distances.abs() <= half_width
        allowed = allowed & (near if is_global is None else near | is_global[:, None, None, :])
    else:
        allowed = allowed.expand(-1, -1, distances.shape[2], -1)
    term = torch.zeros_like(allowed, dtype=dtype).masked_fill(~allowed, torch.finfo(dtype).min / 2)
    return RowMask(term, distances)


def attend_rows(
    qkv: Tensor,
    runs: Sequence[Run],
    num_heads: int,
    *,
    mask: RowMask,
    relative: RelativePositions | None = None,
    angles: Angles | None = None,
    dropout_probability: float = 0.0,
    want_weights: bool = False,
    is_global: Tensor | None = None,
    whole: RowMask | None = None,
    project_global: Callable[[], Tensor] | None = None,
) -> tuple[Tensor, None]:
    """Attention within each row of a padded batch.

    qkv: float [batch, seq, 3 * hidden]; angles: as of `heads_of`; is_global: bool [batch, seq], tokens that attend to
    all that `whole` allows, with the projections that `project_global` returns in the shape of qkv; runs,
    dropout_probability and want_weights are arguments of every executor, not used here. Returns context [batch, seq,
    hidden], no weights.
    """
    query, key, value = heads_of(qkv, num_heads, angles)
    context = masked_product(query, key, value, mask, relative)  # [batch, heads, seq, head_dim]
    if is_global is not None and whole is not None and project_global is not None:
        globally = masked_product(*heads_of(project_global(), num_heads), whole)
        context = torch.where(is_global[:, None, :, None], globally, context)
    return context.transpose(1, 2).flatten(2), None  # [batch, seq, hidden]


def heads_of(qkv: Tensor, num_heads: int, angles: Angles | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values: float [batch, heads, seq, head_dim] each.

    qkv: float [batch, seq, 3 * hidden]; angles: of rotary positions, for [seq], or for [batch * seq].
    """
    query, key, value = (
        one.unflatten(-1, (num_heads, -1)) for one in qkv.chunk(3, dim=-1)
    )  # [batch, seq, heads, width]
    if angles is not None:
        cosine, sine = (one.unflatten(0, (-1, qkv.shape[1])) for one in angles[:2])
        turned = partial(rotate, cosine=cosine, sine=sine, neighbors=angles.neighbors)
        query, key, value = turned(query), turned(key), turned(value) if angles.values else value
    return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)


def masked_product(
    query: Tensor, key: Tensor, value: Tensor, mask: RowMask, relative: RelativePositions | None = None
) -> Tensor:
    """softmax(q k^T / sqrt(head_dim) + mask) v: float [batch, heads, queries, head_dim].

    query: float [batch, heads, queries, head_dim]; key, value: float [batch, heads, keys, head_dim].
    """
    term = mask.term.to(query.dtype)  # scores may be in float32 (config.upcast_attention)
    if relative is None:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=term)
    scale = float(query.shape[-1]) ** -0.5
    query = query * scale
    terms = relative.score_terms(query, key, scale, mask.distances, slice(None))
    weights = torch.softmax(query @ key.mT + terms + term, dim=-1)
    more = relative.context_terms(weights, mask.distances)
    context = weights @ value
    return context if more is None else context + more


def angle_tables(config: ModelConfig) -> list[Angles | None]:
    """Rotary angles of each layer at every position: cosine and sine, float32 [positions, head_dim / 2].

    A graph looks them up: one in half precision would round the angles before it takes their cosine, and be wrong after
    a few hundred tokens.
    """
    return angles_of(config, torch.arange(config.max_position_embeddings), torch.float32)


def angles_at(tables: Sequence[Angles | None], positions: Tensor) -> list[Angles | None]:
    """Rotary angles of each layer at positions, int64 [tokens]: [tokens, head_dim / 2]. tables: of angle_tables."""
    made = {
        id(table): table._replace(cosine=table.cosine[positions], sine=table.sine[positions])
        for table in tables
        if table is not None
    }
    return [None if table is None else made[id(table)] for table in tables]


def padded_executors(
    config: ModelConfig,
    keep: Tensor,
    dtype: torch.dtype,
    relatives: Sequence[RelativePositions | None],
    tables: Sequence[Angles | None],
    is_global: Tensor | None = None,
) -> list[Executor]:
    """Returns the attention function of each layer.

    keep: bool [batch, seq]; relatives: per layer; tables: of angle_tables; is_global: bool [batch, seq], or None.
    """
    columns = torch.arange(keep.shape[1], device=keep.device)
    made: dict[tuple[str, int], RowMask] = {}
    found: list[Executor] = []
    whole = None if is_global is None else row_mask(keep, columns, dtype, "full")
    for depth, (relative, angles) in enumerate(zip(relatives, angles_at(tables, columns), strict=True)):
        rule = _rule(config, depth)
        if rule not in made:
            made[rule] = row_mask(keep, columns, dtype, *rule, is_global)
        own: dict[str, Any] = {"mask": made[rule], "relative": relative, "angles": angles}
        found.append(partial(attend_rows, **own, is_global=is_global, whole=whole))
    return found


def most_tokens(config: ModelConfig) -> int:
    """Returns the longest sequence that a graph may have: BigBird's while its attention is full.

    Raises ModelFolderError for sparse attention, whose pattern depends on the length.
    """
    longest = config.max_position_embeddings
    for depth in range(config.num_hidden_layers):
        rule = rule_of(config, depth, training=False)
        if isinstance(rule, PublishedBigBird):
            longest = min(longest, (5 + 2 * rule.random_blocks) * rule.block_size)
        elif rule is not None and not isinstance(rule, SlidingWindow):
            raise ModelFolderError(
                f"Attention '{config.attention}' cannot be exported: its sparse pattern depends on the length of the "
                "text. Export a model with full, window or causal attention."
            )
    return longest


def _rule(config: ModelConfig, depth: int) -> tuple[str, int]:
    if config.attention == "causal":
        return "causal", 0
    rule = rule_of(config, depth, training=False)
    return ("window", rule.half_width) if isinstance(rule, SlidingWindow) else ("full", 0)


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
        has_types = model.config.type_vocab_size > 1 and model.question_sep is None
        self.inputs = (IDS, MASK, TYPES) if has_types else (IDS, MASK)
        self.angles = angle_tables(model.config)
        self._given: list[str | int] = ["batch", "choices", "sequence"] if self.has_choices else ["batch", "sequence"]
        with torch.inference_mode():  # the names and sizes of the outputs
            ids = torch.zeros([1] * len(self._given), dtype=torch.long)
            found = self.named(*(ids + int(name == MASK) for name in self.inputs))
        self.outputs = tuple(found)
        self._axes: dict[str, list[str | int]] = {name: self._axes_of(name, one) for name, one in found.items()}

    @property
    def has_choices(self) -> bool:
        """Whether an input is [batch, choices, seq]."""
        return isinstance(self.model.head, ChoiceHead)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """inputs: int64 [batch, seq], in the order of `inputs`. Returns the outputs in the order of `outputs`."""
        return tuple(self.named(*inputs).values())

    def named(self, *inputs: Tensor) -> dict[str, Tensor]:
        """The same, by name."""
        ids, mask, *more = (one.flatten(0, 1) for one in inputs) if self.has_choices else inputs
        rows, types = Rows(ids, mask != 0), more[0] if more else None
        if self.model.question_sep is not None:
            types = (~in_question(ids, self.model.question_sep)).long()
        found = {name: one.float() for name, one in self._heads(self._encode(rows, types), rows).items()}
        return {name: one.view(inputs[0].shape[:2]) for name, one in found.items()} if self.has_choices else found

    def axes(self, name: str) -> list[str | int]:
        """The axes of an input or output; a number is a fixed size."""
        return list(self._given if name in self.inputs else self._axes[name])

    def _axes_of(self, name: str, output: Tensor) -> list[str | int]:
        if self.has_choices:
            return ["batch", "choices"]
        if name == STATES or is_per_token(self.model.head, name):
            return ["batch", "sequence", *output.shape[2:]]
        return ["batch", *output.shape[1:]]

    def _encode(self, rows: Rows, types: Tensor | None) -> Tensor:
        """The last layer: float [batch, seq, hidden]. types: int64 [batch, seq]."""
        stack, config = self.model.encoder, self.model.config
        inputs, dtype = (rows.ids, rows.positions(config), types), self.model.compute_dtype
        hidden = stack.embeddings(*inputs, dtype, rows.token_factors(config))
        is_global = None
        if config.global_attention and isinstance(self.model.head, GLOBAL_HEADS):
            is_global = global_columns(self.model.head, rows.ids, config.global_sep_token_id)
        attending = padded_executors(config, rows.keep, dtype, stack.relatives(dtype), self.angles, is_global)
        states = [hidden]
        for depth, (layer, executor) in enumerate(zip(stack.in_order, attending, strict=True)):
            hidden, _ = layer(hidden, (), False, executor)
            if depth == 0 and stack.convolution is not None:
                hidden = stack.convolution.add(stack.convolution.convolve(states[0] * rows.keep[..., None]), hidden)
            states.append(hidden)
        states[-1] = hidden = stack.finish(hidden)
        mix = None if self.model.top is None else self.model.top.mix
        return hidden if mix is None else mix(states)

    def _heads(self, hidden: Tensor, rows: Rows) -> dict[str, Tensor]:
        """hidden: float [batch, seq, hidden]."""
        model = self.model
        if model.head is None:
            found = {STATES: hidden, EMBEDDING: rows.pooled(hidden, self.declared, model.projection)}
            return found | ({POOLED: self._pooler(hidden, rows)} if model.has_pooler else {})
        asked = None
        if model.question_sep is not None:
            is_first = torch.arange(rows.ids.shape[1], device=hidden.device) == 0
            asked = in_question(rows.ids, model.question_sep), is_first[None]
        return model.apply_head(hidden, partial(self._vector, hidden, rows), asked)

    def _vector(self, hidden: Tensor, rows: Rows) -> Tensor:
        """The input of a sequence head: float [batch, hidden]."""
        head: Any = self.model.head
        if head.needs_pooler:
            return self._pooler(hidden, rows)
        if head.takes_mean:
            return rows.pooled(pooled_late(head, hidden), SentenceSettings())
        return rows.first_or_last(hidden, self.model.config)

    def _pooler(self, hidden: Tensor, rows: Rows) -> Tensor:
        return self.model.encoder.pool(rows.first_or_last(hidden, self.model.config))


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

    def token_factors(self, config: ModelConfig) -> Tensor | None:
        """Factors on the token embeddings: float32 [batch, seq, 1], or None."""
        if config.token_dropout_id is None:
            return None
        is_mask = self.ids == config.token_dropout_id
        counts = [one.float().sum(dim=1, keepdim=True) for one in (is_mask & self.keep, self.keep)]
        return token_dropout(is_mask, counts[0] / counts[1].clamp(min=1), torch.float32)

    def first_or_last(self, hidden: Tensor, config: ModelConfig) -> Tensor:
        """The first token of each row, or with causal attention its last one: float [batch, hidden]."""
        if not config.pools_last_token:
            return hidden[:, 0]
        columns = torch.arange(self.ids.shape[1], device=hidden.device)
        last = (self.keep * columns).argmax(dim=1)  # [batch]
        return hidden.gather(1, last[:, None, None].expand(-1, 1, hidden.shape[-1])).squeeze(1)

    def pooled(self, hidden: Tensor, declared: SentenceSettings, projection: Projection | None = None) -> Tensor:
        """Sentence embeddings: float32 [batch, dimensions]. hidden: float [batch, seq, hidden]."""
        rows, keep = hidden.float(), self.keep[..., None]  # [batch, seq, 1]
        rows = F.normalize(rows, dim=-1) if declared.normalize_tokens else rows
        vectors = torch.cat([self._pool(rows, keep, name) for name in declared.pooling.split("+")], dim=-1)
        vectors = vectors if projection is None else projection(vectors)
        vectors = F.normalize(vectors, dim=-1) if declared.normalize else vectors
        return vectors if declared.dimensions is None else vectors[:, : declared.dimensions]

    def _pool(self, rows: Tensor, keep: Tensor, pooling: str) -> Tensor:
        """float32 [batch, hidden]. rows: float32 [batch, seq, hidden]; keep: bool [batch, seq, 1]."""
        if pooling == "cls":
            return rows[:, 0]
        if pooling == "max":
            return rows.masked_fill(~keep, torch.finfo(rows.dtype).min).amax(dim=1)
        count = keep.sum(dim=1, keepdim=True).clamp(min=1)  # [batch, 1, 1]
        places = torch.arange(1, rows.shape[1] + 1, device=rows.device)[:, None]  # [seq, 1]
        if pooling == "lasttoken":
            return (rows * (places == count)).sum(dim=1)
        weights = keep * places if pooling == "weightedmean" else keep  # padding is at the right
        # Divided before the sum, which would be beyond the largest float16 in a long text.
        mean = (rows * (weights / weights.sum(dim=1, keepdim=True).clamp(min=1))).sum(dim=1)
        return mean * count[:, 0] ** 0.5 if pooling == "mean_sqrt_len_tokens" else mean


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
