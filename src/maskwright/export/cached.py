"""Networks that generate text, as graphs with cached keys and values.

The names are those of optimum and transformers.js. One graph reads a prompt, with a cache of length 0, and then takes
one or more tokens at a time. As in `network`, the layers are those of the model itself; only attention differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from ..core.errors import ModelFolderError
from ..models.config import ModelConfig
from ..models.encoder_decoder import EncoderDecoder
from ..models.model import Model, SentenceSettings
from ..nn.attention import Executor, Run
from ..nn.cross import CrossAttention
from ..nn.positions import Angles, RelativePositions
from .network import (
    LOGITS,
    STATES,
    PaddedNetwork,
    RowMask,
    Rows,
    angle_tables,
    angles_at,
    check_exportable,
    heads_of,
    masked_product,
    row_mask,
)
from .runtimes import DECODER, ENCODER, IDS, MASK, MEMORY, MEMORY_MASK, PAST, POSITIONS, PRESENT

ROWS, TOKENS, PAST_TOKENS, ALL_TOKENS = "batch_size", "sequence", "past_sequence", "all_sequence"
SOURCE, PAST_SOURCE = "encoder_sequence", "past_encoder_sequence"
CLM, SEQ2SEQ = "clm", "seq2seq"  # heads of networks that generate


class Cache:
    """Keys and values so far, per layer two of float [batch, heads, past, head_dim], and those after this call."""

    def __init__(self, past: Sequence[Tensor]) -> None:
        self._past = iter(past)
        self.present: list[Tensor] = []

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Appends keys and values of the next layer, float [batch, heads, new, head_dim] each: all of that layer."""
        found = torch.cat((next(self._past), key), dim=2), torch.cat((next(self._past), value), dim=2)
        self.present += found
        return found


class CachedNetwork(nn.Module):
    """A network with inputs float32 past_key_values.N.key and .value [batch, heads, past, head_dim], and outputs logits
    [batch, seq, vocab] and present.N.key and .value, the new cache.

    config: of the stack with the cache; axes: of the other inputs, in their order, a number for a fixed size; vocab:
    size of the vocabulary; kinds: parts of the names of the caches of a layer.
    """

    def __init__(
        self, model: Model, config: ModelConfig, axes: dict[str, list[str | int]], vocab: int, kinds: Sequence[str]
    ) -> None:
        super().__init__()
        self.model, self.angles = model, angle_tables(config)
        parts = [f"{kind}{part}" for kind in kinds for part in ("key", "value")]
        names = [f"{layer}.{part}" for layer in range(config.num_hidden_layers) for part in parts]
        self.inputs = (*axes, *(f"{PAST}.{one}" for one in names))
        self.outputs = (LOGITS, *(f"{PRESENT}.{one}" for one in names))
        self._axes: dict[str, list[str | int]] = {**axes, LOGITS: [ROWS, TOKENS, vocab]}
        self._heads = [config.num_attention_heads, config.head_dim]

    def axes(self, name: str) -> list[str | int]:
        """The axes of an input or output; a number is a fixed size."""
        if name in self._axes:
            return list(self._axes[name])
        is_past, is_source = name.startswith(PAST), ".encoder." in name
        tokens = (PAST_SOURCE if is_past else SOURCE) if is_source else PAST_TOKENS if is_past else ALL_TOKENS
        heads, size = self._heads
        return [ROWS, heads, tokens, size]


class CausalNetwork(CachedNetwork):
    """A causal language model: tokens and cache to the logits of each next token, and the new cache.

    inputs: int64 input_ids [batch, seq], attention_mask [batch, past + seq], 0 for padding at the left, position_ids
    [batch, seq], and the cache.
    """

    name = "model"

    def __init__(self, model: Model) -> None:
        check_exportable(model)
        axes: dict[str, list[str | int]] = {IDS: [ROWS, TOKENS], MASK: [ROWS, ALL_TOKENS], POSITIONS: [ROWS, TOKENS]}
        super().__init__(model, model.config, axes, model.config.vocab_size, ("",))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        ids, mask, positions, *past = inputs
        stack, cache = self.model.encoder, Cache(past)
        dtype = self.model.compute_dtype
        hidden = stack.embeddings(ids, positions, None, dtype)
        attending = cached_executors(self.angles, mask != 0, positions, cache, stack.relatives(dtype), dtype, past)
        for layer, executor in zip(stack.in_order, attending, strict=True):
            hidden, _ = layer(hidden, (), False, executor)
        return self.model.mlm_logits(stack.finish(hidden)).float(), *cache.present


class SourceNetwork(PaddedNetwork):
    """The encoder of an encoder-decoder: input_ids and attention_mask to its last layer."""

    name = ENCODER

    def _heads(self, hidden: Tensor, rows: Rows) -> dict[str, Tensor]:
        return {STATES: hidden}

    def axes(self, name: str) -> list[str | int]:
        """See PaddedNetwork; the names are those of the decoder's graph."""
        return [{"batch": ROWS, "sequence": SOURCE}.get(str(one), one) for one in super().axes(name)]


class TargetNetwork(CachedNetwork):
    """A step of the decoder of an encoder-decoder.

    inputs: int64 encoder_attention_mask [batch, source], input_ids [batch, seq]; float32 encoder_hidden_states [batch,
    source, hidden]; past_key_values.N.decoder.key and .value as for a causal model, .encoder.key and .value [batch,
    heads, 0 or source, head_dim]. The keys and values of the source are computed by the first call, where their cache
    has length 0, and are reused afterwards.
    """

    name = DECODER
    model: EncoderDecoder

    def __init__(self, model: EncoderDecoder) -> None:
        axes: dict[str, list[str | int]] = {
            MEMORY_MASK: [ROWS, SOURCE],
            IDS: [ROWS, TOKENS],
            MEMORY: [ROWS, SOURCE, model.config.hidden_size],
        }
        super().__init__(model, model.decoder.config, axes, model.config.target_vocab_size, ("decoder.", "encoder."))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        memory_mask, ids, memory, *past = inputs
        stack, cache, dtype = self.model.decoder, Cache(past), self.model.compute_dtype
        rows, length = ids.shape
        before = past[0].shape[2]
        columns = torch.arange(length, device=ids.device) + before
        positions = columns.expand(rows, length)
        hidden = stack.embeddings(ids, positions, None, dtype)
        keep = torch.ones(rows, before + length, dtype=torch.bool, device=ids.device)
        attending = cached_executors(self.angles, keep, positions, cache, stack.relatives(dtype), dtype, past)
        seen = row_mask(memory_mask != 0, columns, dtype, "full")
        fresh = memory[:, past[2].shape[2] :]  # nothing, if their keys and values are cached
        across = partial(attend_source, fresh=fresh, mask=seen, cache=cache)
        for layer, executor in zip(stack.depths, attending, strict=True):
            hidden, _, _ = layer.read(hidden, (), False, executor, across)
        return self.model.mlm_logits(stack.finish(hidden)).float(), *cache.present


Network = PaddedNetwork | CausalNetwork | TargetNetwork


def cached_executors(
    tables: Sequence[Angles | None],
    keep: Tensor,
    positions: Tensor,
    cache: Cache,
    relatives: Sequence[RelativePositions | None],
    dtype: torch.dtype,
    past: Sequence[Tensor],
) -> Iterator[Executor]:
    """Yields the causal attention function of each layer, in the order in which they run.

    tables: of angle_tables; keep: bool [batch, past + seq]; positions: int64 [batch, seq]; relatives: per layer.
    """
    length = positions.shape[1]
    columns = torch.arange(length, device=positions.device) + past[0].shape[2]
    mask = row_mask(keep, columns, dtype, "causal")
    for relative, angles in zip(relatives, angles_at(tables, positions.flatten()), strict=True):
        yield partial(_attend_cached, mask=mask, cache=cache, relative=relative, angles=angles)


def _attend_cached(
    qkv: Tensor,
    runs: Sequence[Run],
    num_heads: int,
    *,
    mask: RowMask,
    cache: Cache,
    relative: RelativePositions | None = None,
    angles: Angles | None = None,
    dropout_probability: float = 0.0,
    want_weights: bool = False,
) -> tuple[Tensor, None]:
    """Attention to the cache and the new tokens; see `attend_rows`."""
    query, key, value = heads_of(qkv, num_heads, angles)
    context = masked_product(query, *cache.extend(key, value), mask, relative)  # [batch, heads, seq, head_dim]
    return context.transpose(1, 2).flatten(2), None


def attend_source(
    attention: CrossAttention, hidden: Tensor, *, fresh: Tensor, mask: RowMask, cache: Cache
) -> tuple[Tensor, None]:
    """Attention to the source. hidden: float [batch, seq, hidden]; fresh: [batch, source or 0, hidden], not cached."""
    query = attention.query(hidden).unflatten(-1, (attention.num_heads, -1)).transpose(1, 2)
    both = attention.key_value(fresh).unflatten(-1, (2, attention.num_heads, -1)).permute(2, 0, 3, 1, 4)
    context = masked_product(query, *cache.extend(both[0], both[1]), mask)
    return context.transpose(1, 2).flatten(2), None


def networks_of(model: Model, declared: SentenceSettings | None = None) -> list[Network]:
    """The graphs of a model: one, or encoder and decoder. Raises ModelFolderError for a model that has none."""
    if isinstance(model, EncoderDecoder):
        if model.head_name != SEQ2SEQ:
            raise ModelFolderError("An encoder-decoder without a head has no graph: export it with its head.")
        return [SourceNetwork(model), TargetNetwork(model)]
    if model.head_name == CLM:
        return [CausalNetwork(model)]
    return [PaddedNetwork(model, declared)]
