"""The Transformer encoder: embeddings, then layers of attention and feed-forward networks, each with add and norm.

With pre-norm, norms come before each sublayer and once at the end. Works on packs: every matrix is [tokens, hidden];
only attention depends on sequence boundaries.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..core.errors import ConfigError
from ..data.batch import Batch
from ..nn.attention import (
    Executor,
    Run,
    SelfAttention,
    SequenceOffsets,
    attend,
    attend_group,
    attend_varlen,
    group_of,
    mask_scores,
    missing,
)
from ..nn.cache import KeyValueCache, Where
from ..nn.disentangled import Convolution, PositionProjections, PositionVectors
from ..nn.embeddings import Embeddings, packed_token_dropout
from ..nn.layers import NORMS, FeedForward, LayerNorm, Linear, add_and_norm, dropout
from ..nn.positions import (
    Angles,
    RelativeBias,
    RelativePositions,
    RelativeVectors,
    attend_relative,
    attend_rotary,
    rotary_angles,
)
from ..nn.sparse import (
    AttentionRule,
    BlockPattern,
    PublishedBigBird,
    SlidingWindow,
    attend_sparse,
    big_bird,
    global_only,
    pattern_for,
)
from .config import NUM_BUCKETS, ModelConfig

# -- Attention pattern and positions of each layer: binds sparse rules and position encodings to a pack --------------


AnyExecutor = TypeVar("AnyExecutor", Executor, Executor | None)


def rule_of(config: ModelConfig, depth: int, training: bool) -> AttentionRule | None:
    """The sparse rule of the layer at `depth` (from 0); None for full and causal attention."""
    every = config.full_attention_every
    if config.attention in ("full", "causal") or (every and depth % every == 0):
        return None
    if config.attention == "window":
        return SlidingWindow(window_of(config, depth))
    size, random = config.block_size, config.random_blocks
    if config.attention == "global":
        return global_only(size)
    if config.attention == "big_bird":
        return big_bird(size, random, config.attention_seed, depth)
    return PublishedBigBird(size, random, config.max_position_embeddings, depth, training)


def window_of(config: ModelConfig, depth: int) -> int:
    """Maximum distance in tokens that the layer at `depth` attends to."""
    return (config.window_size if config.window_sizes is None else config.window_sizes[depth]) // 2


def pattern_of(config: ModelConfig, num_tokens: int, depth: int = 0, training: bool = False) -> BlockPattern | None:
    """The block pattern of the layer at `depth` for a text of `num_tokens` tokens; None for full attention.

    Its method `draw()` returns it as text.
    """
    rule = rule_of(config, depth, training)
    return None if rule is None else pattern_for(rule, num_tokens, config.num_attention_heads)


def theta_of(config: ModelConfig, depth: int) -> float | None:
    """The base of the rotary angles of the layer at `depth`; None for other position encodings."""
    if config.positions != "rotary":
        return None
    is_local = rule_of(config, depth, False) is not None
    return config.rotary_local_theta or config.rotary_theta if is_local else config.rotary_theta


def depends_on_padding(config: ModelConfig) -> bool:
    """Whether the columns of the tokens in a padded row, and its length, affect the attention pattern."""
    return config.attention == "big_bird_published"


def switch_to_full(config: ModelConfig, batch: Batch, row_length: int | None) -> str | None:
    """Returns a warning if a published BigBird uses full attention for this pack because it is short, else None."""
    rule = rule_of(config, config.num_hidden_layers - 1, False)
    if not isinstance(rule, PublishedBigBird) or not batch.num_tokens:
        return None
    shortest = row_length or min(batch.lengths)
    if not rule.is_full_at(shortest):
        return None
    most = (5 + 2 * rule.random_blocks) * rule.block_size
    return (
        f"This BigBird uses full attention for rows of at most {most:,} tokens, as in transformers, and sparse "
        f"attention for longer ones: this row has {shortest:,}."
    )


def angles_of(config: ModelConfig, position_ids: Tensor, dtype: torch.dtype) -> list[Angles | None]:
    """Returns cosine and sine of the rotary angles per layer, [tokens, head_dim / 2]; None for layers without.

    position_ids: int64 [tokens].
    """
    thetas = [theta_of(config, depth) for depth in range(config.num_hidden_layers)]
    made = {
        theta: Angles(
            *rotary_angles(
                position_ids, config.head_dim, theta, dtype, config.rotary_float16, scaling=config.rotary_scaling
            ),
            config.rotary_pairs == "neighbors",
            config.rotary_values,
        )
        for theta in dict.fromkeys(thetas)
        if theta is not None
    }
    return [None if theta is None else made[theta] for theta in thetas]


def executors(
    config: ModelConfig,
    batch: Batch,
    dtype: torch.dtype,
    relatives: Sequence[RelativePositions | None],
    training: bool,
    row_length: int | None,
    ends: SequenceOffsets | None = None,
) -> list[Executor | None]:
    """Returns the attention function of each layer for this pack; None for plain attention.

    relatives: relative positions per layer; row_length: length of the padded rows of the pack; ends: offsets of the
    sequences, to require one kernel for all of them (needed for CUDA graphs).
    """
    if batch.seen is not None:
        return _with_angles(
            [_seen_executor(config, batch, relatives, training)] * len(relatives),
            angles_of(config, batch.position_ids, dtype),
        )
    flash = _flash_executor(config, batch, dtype, ends)
    is_full = config.attention == "full" and config.positions != "rotary" and batch.distances is None
    if is_full and flash is None and batch.input_ids.device.type == "cpu" and not any(relatives):
        return [partial(attend, in_cpp=True) if training else None] * len(relatives)
    found: list[Executor | None] = []
    for depth, relative in enumerate(relatives):
        is_plain = relative is None and batch.distances is None and rule_of(config, depth, training) is None
        if flash is not None and is_plain:
            found.append(flash)
        elif config.attention == "causal":
            found.append(_causal_executor(relative, batch, in_cpp=training))
        else:
            found.append(_executor(rule_of(config, depth, training), relative, batch, row_length))
    return _with_angles(found, angles_of(config, batch.position_ids, dtype))


def _flash_executor(
    config: ModelConfig, batch: Batch, dtype: torch.dtype, ends: SequenceOffsets | None
) -> Executor | None:
    """One kernel for the whole pack, if available and if its sequences differ in length.

    Sequences of equal length are as fast as views of the pack.
    """
    if ends is None and config.upcast_attention:
        return None
    if ends is None:
        several = batch.input_ids.device.type == "cuda" and len(batch.runs) > 1
        if not several or missing(dtype, batch.input_ids.device, config.head_dim) is not None:
            return None
        ends = batch.ends
    return partial(attend_varlen, ends=ends, causal=config.attention == "causal")


def _seen_executor(
    config: ModelConfig, batch: Batch, relatives: Sequence[RelativePositions | None], training: bool
) -> Executor:
    """Full attention to the first tokens of each sequence."""
    rules = [rule_of(config, depth, training) for depth in range(len(relatives))]
    longest = max(batch.lengths)
    is_full = config.attention != "causal" and all(rule is None or rule.is_full_at(longest) for rule in rules)
    if not is_full or any(relatives):
        raise ConfigError("Tokens to which no other token attends need full attention, without relative positions.")
    assert batch.seen is not None
    group = group_of(batch.lengths, batch.input_ids.device)
    is_hidden = (torch.arange(longest) >= batch.seen[:, None])[:, None, None].to(batch.input_ids.device)
    hide = partial(mask_scores, is_masked=is_hidden)  # [sequences, 1, 1, length]
    return lambda qkv, runs, num_heads, dropout_probability, want_weights: (
        attend_group(qkv, group, num_heads, dropout_probability, hide),
        None,
    )


def storing_executors(
    config: ModelConfig,
    batch: Batch,
    cache: KeyValueCache,
    where: Where,
    dtype: torch.dtype,
    relatives: Sequence[RelativePositions | None],
) -> list[Executor]:
    """Returns the attention functions of a causal network that also store keys and values in `cache`.

    where: row and column of each token in the cache.
    """
    found: list[Executor] = [
        partial(cache.attend_and_store, depth=depth, where=where, attend=_causal_executor(relative, batch))
        for depth, relative in enumerate(relatives)
    ]
    return _with_angles(found, angles_of(config, batch.position_ids, dtype))


def cached_executors(
    config: ModelConfig,
    position_ids: Tensor,
    cache: KeyValueCache,
    dtype: torch.dtype,
    relatives: Sequence[RelativePositions | None],
) -> list[Executor]:
    """Returns the attention functions per layer for one new token per row of `cache`. position_ids: int64 [rows]."""
    found: list[Executor] = [
        partial(cache.attend_cached, depth=depth, relative=relative) for depth, relative in enumerate(relatives)
    ]
    return _with_angles(found, angles_of(config, position_ids, dtype))


def _with_angles(executors: Sequence[AnyExecutor], angles: Sequence[Angles | None]) -> list[AnyExecutor]:
    """The executor of each layer with its rotary angles, if it has any."""
    return [
        one if own is None else partial(attend_rotary, angles=own, executor=one)
        for one, own in zip(executors, angles, strict=True)
    ]


def _causal_executor(relative: RelativePositions | None, batch: Batch, in_cpp: bool = False) -> Executor:
    if relative is None and batch.distances is not None:
        raise ConfigError("A pack with its own distances needs relative positions.")
    if relative is None:
        return partial(attend, causal=True, in_cpp=in_cpp)
    return partial(attend_relative, relative=relative, positions=batch.places, distances=batch.distances, causal=True)


def _executor(
    rule: AttentionRule | None, relative: RelativePositions | None, batch: Batch, row_length: int | None
) -> Executor | None:
    places = batch.places
    if batch.distances is not None:
        if relative is None or rule is not None:
            raise ConfigError("A pack with its own distances needs relative positions and full attention.")
        return partial(attend_relative, relative=relative, distances=batch.distances)
    if rule is None:
        return None if relative is None else partial(attend_relative, relative=relative, positions=places)
    if isinstance(rule, PublishedBigBird):
        length = row_length
    elif isinstance(rule, SlidingWindow) and places is not None:
        length = row_length or int(places.max()) + 1
    else:  # our own rules apply to the tokens of the sequence, without padding
        places = length = None
    own: dict[str, Any] = {"rule": rule, "relative": relative, "positions": places, "padded_length": length}
    return partial(attend_sparse, **own, is_global=batch.global_tokens)


# Table kinds of `nn.embeddings`; other positions have no table.
_TABLES = {"absolute": "learned", "offset": "learned", "sinusoidal": "fixed", "sinusoidal_halves": "halves"}


def make_embeddings(config: ModelConfig, **changes: Any) -> Embeddings:
    """The input embeddings of a configuration. changes: other arguments of `Embeddings`."""
    settings: dict[str, Any] = {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "max_position_embeddings": config.max_position_embeddings,
        "type_vocab_size": config.type_vocab_size,
        "task_type_vocab_size": config.task_type_vocab_size,
        "layer_norm_eps": config.layer_norm_eps,
        "hidden_dropout": 0.0 if config.embedding_dropout == "none" else config.hidden_dropout,
        "pad_token_id": config.pad_token_id,
        "position_offset": config.position_offset,
        "embedding_size": config.embedding_size,
        "positions": _TABLES.get(config.positions, "none"),
        "norm_bias": config.norm_bias,
        "norm": config.embedding_norm,
        "norm_kind": config.norm_kind,
        "dropout_first": config.embedding_dropout == "before",
        "scale": config.scale_embeddings,
        "project_first": config.project_first,
    }
    return Embeddings(**settings | changes)


@dataclass(frozen=True)
class Encoded:
    """Output of the encoder for a pack.

    hidden: float [tokens, hidden], the last layer, after the final norm if any; hidden_states: layers + 1 tensors of
    that shape, the embeddings first and `hidden` last, or None; attentions: per layer one [heads, length, length] per
    sequence, or None; states: final states of a recurrent network.
    """

    hidden: Tensor
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[tuple[Tensor, ...], ...] | None = None
    states: tuple[tuple[Tensor, ...], ...] | None = None


class Layer(nn.Module):
    """x = norm(x + attention(x)), then x = norm(x + ffn(x)) (Vaswani et al. 2017, section 3.1).

    With config.norm "pre", x = x + attention(norm(x)), then x = x + ffn(norm(x)) (Xiong et al. 2020, figure 1).
    index: of its weights, from 0; the first layer may have no attention_norm. relative: relative position vectors, its
    projections of shared ones, or None. compiles: whether the part after attention is compiled in training
    (train/pretraining/job.py).
    """

    def __init__(self, config: ModelConfig, index: int = 0) -> None:
        super().__init__()
        size, eps, bias = config.hidden_size, config.layer_norm_eps, config.norm_bias
        norm = NORMS[config.norm_kind]
        self.is_pre = config.norm == "pre"
        self.compiles = False
        self.attention = SelfAttention(
            size,
            config.num_attention_heads,
            config.attention_dropout,
            config.linear_bias,
            key_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            qkv_bias=config.qkv_bias,
            key_bias=config.key_bias,
            query_scale=_query_scale(config, index),
            upcast=config.upcast_attention,
            has_global=config.global_attention,
        )
        has_norm = config.first_norm or not (index == 0 and self.is_pre)
        self.attention_norm = norm(size, eps, bias) if has_norm else None
        self.ffn = FeedForward(
            size,
            config.intermediate_size,
            config.hidden_act,
            gated=config.gated,
            bias=config.linear_bias,
            up_bias=config.ffn_up_bias,
            inner_dropout=config.ffn_dropout,
        )
        self.ffn_norm = norm(size, eps, bias)
        self.language, self.norm_first = config.language, config.adapter_norm_first
        self.adapters: nn.ModuleDict | None = None
        self.adapter_norm: LayerNorm | None = None
        if config.languages:
            inner, act = size // config.adapter_reduction, config.hidden_act
            self.adapters = nn.ModuleDict({name: FeedForward(size, inner, act) for name in config.languages})
            self.adapter_norm = norm(size, eps, bias) if config.adapter_norm == "own" else None
        self.shares_norm = config.adapter_norm == "shared"
        if config.shrink_residuals:
            self.attention.out.spread = self.ffn.down.spread = (2 * config.num_hidden_layers) ** -0.5
        kind = config.positions.removeprefix("relative_") if config.positions.startswith("relative_") else None
        self.relative: RelativeVectors | PositionProjections | None = None
        if kind is not None:
            self.relative = RelativeVectors(config.relative_distance, config.head_dim, kind)
        elif config.position_terms:
            self.relative = PositionProjections(
                size,
                config.position_terms,
                shared=config.share_position_keys,
                key_bias=config.key_bias,
                dropout=config.hidden_dropout,
            )
        rates = {"both": config.hidden_dropout, "attention": config.hidden_dropout, "inner": config.attention_dropout}
        self.after_attention = rates.get(config.residual_dropout, 0.0)
        self.after_ffn = config.hidden_dropout if config.residual_dropout in ("both", "ffn") else 0.0

    def forward(
        self,
        hidden: Tensor,
        runs: Sequence[Run],
        want_weights: bool = False,
        executor: Executor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """hidden: float [tokens, hidden]; runs, executor: see `SelfAttention`.

        Returns the same shape, and the attention weights if wanted.
        """
        attended, weights = self.attention(self._before(hidden), runs, want_weights, executor)
        return self.add(hidden, attended), weights

    def _before(self, hidden: Tensor) -> Tensor:
        """The input of attention. [tokens, hidden], like the result."""
        return self.attention_norm(hidden) if self.is_pre and self.attention_norm is not None else hidden

    def add(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """The part after attention: add and norm, feed-forward, add and norm. All [tokens, hidden]."""
        if self.compiles and self.training:
            result: Tensor = _compiled_add()(self, hidden, attended)
            return result
        return self._add(hidden, attended)

    def _add(self, hidden: Tensor, attended: Tensor) -> Tensor:
        return self._feed(self._attended(hidden, attended))

    def _attended(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """Add and, post-norm, norm. All [tokens, hidden]."""
        if self.is_pre:
            return hidden + dropout(attended, self.after_attention, self.training)
        assert self.attention_norm is not None
        return add_and_norm(hidden, attended, self.attention_norm, self.after_attention, self.training)

    def _feed(self, hidden: Tensor) -> Tensor:
        """Feed-forward, add and norm. [tokens, hidden], like the result."""
        inner = self.ffn(self.ffn_norm(hidden) if self.is_pre else hidden)
        if not self.is_pre and self.adapters is None:
            return add_and_norm(hidden, inner, self.ffn_norm, self.after_ffn, self.training)
        hidden = hidden + dropout(inner, self.after_ffn, self.training)
        if self.adapters is not None:
            norm = self.norm_of_adapter
            normed = hidden if norm is None else norm(hidden)
            changes = dropout(self.adapters[str(self.language)](normed), self.after_ffn, self.training)
            hidden = changes + (normed if self.norm_first else hidden)
        if not self.is_pre:
            hidden = self.ffn_norm(hidden)
        return hidden

    @property
    def norm_of_adapter(self) -> LayerNorm | None:
        """The norm before the language adapter, or None."""
        return self.ffn_norm if self.shares_norm else self.adapter_norm


def _query_scale(config: ModelConfig, index: int) -> float:
    """Factor on the queries of a layer, in addition to the usual scale of attention scores."""
    scale = 1.0 if config.scale_attention else math.sqrt(config.head_dim)
    scale /= math.sqrt(1 + len(config.position_terms))
    return scale / (index + 1) if config.scale_attention_by_layer else scale


@cache
def _compiled_add() -> Callable[..., Tensor]:
    """Returns one compiled function for all layers and token counts."""
    return torch.compile(Layer._add, dynamic=True)


def _shared_positions(config: ModelConfig) -> RelativeBias | PositionVectors | None:
    """The relative positions that layers share."""
    if config.position_terms:
        kind, size = NORMS[config.norm_kind], config.hidden_size
        norm = kind(size, config.layer_norm_eps, config.norm_bias) if config.position_norm else None
        reach = config.max_position_embeddings
        return PositionVectors(config.hidden_size, config.relative_distance, config.position_buckets, reach, norm)
    rows = config.relative_buckets
    return RelativeBias(NUM_BUCKETS, config.num_attention_heads, num_rows=rows) if rows else None


class Transformer(nn.Module):
    """Embeddings, layers and, for some sequence heads, the pooler.

    layers: the sets of weights, fewer than the depth if shared; `in_order` yields one per layer. relative: relative
    positions shared by every layer, or None. convolution: after the first layer, or None. final_norm: of a pre-norm
    network, else None. recomputes: activation checkpointing (Chen et al. 2016): layers store only their inputs and run
    again, with the same dropout, in the backward pass; the gradients are the same.
    """

    layer_type: ClassVar[type[Layer]] = Layer

    def __init__(self, config: ModelConfig, with_pooler: bool = True) -> None:
        super().__init__()
        # GPT-2 pads with a token of its texts.
        self.embeddings = make_embeddings(config, pad_token_id=None if config.bare_heads else config.pad_token_id)
        self.has_warned = False
        self.recomputes = False
        self.config = config
        self.relative = _shared_positions(config)
        self.layer_groups = config.layer_groups
        self.layers = nn.ModuleList(self.layer_type(config, index) for index in range(config.num_layer_sets))
        is_pre, size = config.norm == "pre", config.hidden_size
        self.convolution = None
        if config.conv_width:
            norm = NORMS[config.norm_kind](size, config.layer_norm_eps, config.norm_bias)
            self.convolution = Convolution(
                norm, config.conv_width, config.conv_groups, config.conv_act, config.hidden_dropout
            )
        self.final_norm = NORMS[config.norm_kind](size, config.layer_norm_eps, config.norm_bias) if is_pre else None
        self.pooler = Linear(config.hidden_size, config.hidden_size) if with_pooler else None
        maps = config.num_hidden_layers * config.num_attention_heads
        self.contacts = Linear(maps, 1) if config.contact_head else None

    @property
    def in_order(self) -> Iterator[Layer]:
        """The layers in order; a shared layer occurs more than once."""
        for group in self.layer_groups:
            layer = self.layers[group]
            assert isinstance(layer, Layer)
            yield layer

    def relatives(self, dtype: torch.dtype) -> list[RelativePositions | None]:
        """The relative positions of each layer of `in_order`, for attention in `dtype`."""
        shared, found = self.relative, list[RelativePositions | None]()
        vectors = shared(dtype) if isinstance(shared, PositionVectors) else None
        for layer in self.in_order:
            own = layer.relative
            if isinstance(own, PositionProjections):
                assert isinstance(shared, PositionVectors) and vectors is not None
                found.append(own.terms(vectors, shared.rows, layer.attention))
            else:
                assert not isinstance(shared, PositionVectors)
                found.append(own or shared)
        return found

    def forward(
        self,
        batch: Batch,
        dtype: torch.dtype,
        *,
        hidden_states: bool = False,
        attentions: bool = False,
        row_length: int | None = None,
    ) -> Encoded:
        """Encodes a pack in `dtype`; see Encoded. row_length: length of the padded rows of the pack."""
        inputs = batch.input_ids, batch.position_ids, batch.token_type_ids
        hidden = self.embeddings(*inputs, dtype, self.token_factors(batch))
        self.warn_full_attention(batch, row_length)
        attending = executors(self.config, batch, dtype, self.relatives(dtype), self.training, row_length)
        states, weights = [], []
        for depth, (layer, executor) in enumerate(zip(self.in_order, attending, strict=True)):
            if hidden_states:
                states.append(hidden)
            given = hidden
            hidden, layer_weights = self.run(layer, hidden, batch.runs, attentions, executor)
            if depth == 0 and self.convolution is not None:
                hidden = self.convolution(given, hidden, batch.lengths, batch.places)
            weights.append(layer_weights)
        hidden = self.finish(hidden)
        if hidden_states:
            states.append(hidden)
        return Encoded(hidden, tuple(states) if hidden_states else None, tuple(weights) if attentions else None)

    def token_factors(self, batch: Batch) -> Tensor | None:
        """Factors on the token embeddings of a pack (config.token_dropout_id): float [tokens, 1], or None."""
        mask_id = self.config.token_dropout_id
        if mask_id is None or not batch.num_tokens:
            return None
        return packed_token_dropout(batch.input_ids, batch.lengths, mask_id, self.embeddings.word.weight.dtype)

    def run(self, layer: Callable[..., Any], *inputs: Any) -> Any:
        """Applies `layer` to `inputs`, with activation checkpointing if enabled."""
        if self.recomputes and self.training and torch.is_grad_enabled():
            return checkpoint(layer, *inputs, use_reentrant=False)
        return layer(*inputs)

    def advance(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        runs: Sequence[Run],
        attending: Sequence[Executor],
        dtype: torch.dtype,
    ) -> Tensor:
        """Encodes tokens with cached attention over previous ones (nn/cache.py): float [tokens, hidden].

        input_ids, position_ids: int64 [tokens]; runs: of a pack, empty for one token per row; attending: per layer.
        """
        hidden = self.embeddings(input_ids, position_ids, None, dtype)
        for layer, executor in zip(self.in_order, attending, strict=True):
            hidden, _ = layer(hidden, runs, False, executor)
        return self.finish(hidden)

    def warn_full_attention(self, batch: Batch, row_length: int | None) -> None:
        """Warns once that a published BigBird uses full attention for short rows."""
        said = None if self.has_warned else switch_to_full(self.config, batch, row_length)
        if said is not None:
            self.has_warned = True
            warnings.warn(said, stacklevel=2)

    def finish(self, hidden: Tensor) -> Tensor:
        """The final norm, if any. hidden: float [tokens, hidden], like the result."""
        return hidden if self.final_norm is None else self.final_norm(hidden)

    def pool(self, first: Tensor) -> Tensor:
        """tanh(W h + b) of each sequence's first token. first: [sequences, hidden], like the result."""
        assert self.pooler is not None, "this encoder was built without a pooler"
        return torch.tanh(self.pooler(first))
