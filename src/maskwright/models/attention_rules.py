"""Attention pattern and positions of each layer: binds sparse rules and position encodings to a pack."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from ..core.errors import ConfigError
from ..data.batch import Batch
from ..nn.attention import Executor, attend
from ..nn.cache import KeyValueCache, Where
from ..nn.relative import RelativePositions, attend_relative
from ..nn.rotary import Angles, attend_rotary, rotary_angles
from ..nn.sparse import attend_sparse, pattern_for
from ..nn.sparse_pattern import BlockPattern
from ..nn.sparse_rules import AttentionRule, PublishedBigBird, SlidingWindow, big_bird, global_only
from ..nn.varlen import SequenceOffsets, attend_varlen, missing
from .config import ModelConfig

AnyExecutor = TypeVar("AnyExecutor", Executor, Executor | None)


def rule_of(config: ModelConfig, depth: int, training: bool) -> AttentionRule | None:
    """The sparse rule of the layer at `depth` (from 0); None for full and causal attention."""
    every = config.full_attention_every
    if config.attention in ("full", "causal") or (every and depth % every == 0):
        return None
    if config.attention == "window":
        return SlidingWindow(config.window_size // 2)
    size, random = config.block_size, config.random_blocks
    if config.attention == "global":
        return global_only(size)
    if config.attention == "big_bird":
        return big_bird(size, random, config.attention_seed, depth)
    return PublishedBigBird(size, random, config.max_position_embeddings, depth, training)


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
        theta: rotary_angles(position_ids, config.head_dim, theta, dtype)
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
    flash = _flash_executor(config, batch, dtype, ends)
    is_full = config.attention == "full" and config.positions != "rotary" and batch.distances is None
    if is_full and flash is None and batch.input_ids.device.type == "cpu" and not any(relatives):
        return [None] * len(relatives)
    found: list[Executor | None] = []
    for depth, relative in enumerate(relatives):
        is_plain = relative is None and batch.distances is None and rule_of(config, depth, training) is None
        if flash is not None and is_plain:
            found.append(flash)
        elif config.attention == "causal":
            found.append(_causal_executor(relative, batch))
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


def _causal_executor(relative: RelativePositions | None, batch: Batch) -> Executor:
    if relative is None and batch.distances is not None:
        raise ConfigError("A pack with its own distances needs relative positions.")
    if relative is None:
        return partial(attend, causal=True)
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
    return partial(attend_sparse, rule=rule, relative=relative, positions=places, padded_length=length)
