"""Who attends to whom in each layer of a network, and what distances do to it: rules and positions bound to a pack."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

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
from ..nn.varlen import Ends, attend_varlen, missing
from .config import ModelConfig


def rule_of(config: ModelConfig, depth: int, training: bool) -> AttentionRule | None:
    """The sparse rule of the layer at `depth`, counted from 0; None where all see all, or all that came before."""
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
    """Which blocks see which in the layer at `depth` for a text of so many tokens; None where all see all.

    `.draw()` of it is a picture in text.
    """
    rule = rule_of(config, depth, training)
    return None if rule is None else pattern_for(rule, num_tokens, config.num_attention_heads)


def theta_of(config: ModelConfig, depth: int) -> float | None:
    """The base of the rotary angles of the layer at `depth`; None where positions are of another kind."""
    if config.positions != "rotary":
        return None
    is_local = rule_of(config, depth, False) is not None
    return config.rotary_local_theta or config.rotary_theta if is_local else config.rotary_theta


def minds_columns(config: ModelConfig) -> bool:
    """Whether the columns in which a padded row keeps its tokens, and its length, decide who sees whom."""
    return config.attention == "big_bird_published"


def switch_to_full(config: ModelConfig, batch: Batch, row_length: int | None) -> str | None:
    """What to say of a pack that a published BigBird attends to fully because it is short; None for others."""
    rule = rule_of(config, config.num_hidden_layers - 1, False)
    if not isinstance(rule, PublishedBigBird) or not batch.num_tokens:
        return None
    shortest = row_length or min(batch.lengths)
    if not rule.is_full_at(shortest):
        return None
    most = (5 + 2 * rule.random_blocks) * rule.block_size
    return (
        f"This BigBird attends fully to rows of at most {most:,} tokens, as transformers does, and sparsely to longer "
        f"ones: here is one of {shortest:,}."
    )


def angles_of(config: ModelConfig, position_ids: Tensor, dtype: torch.dtype) -> list[Angles | None]:
    """For each layer cosine and sine of the tokens' rotary angles, [tokens, head_dim / 2]; None without.

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
    ends: Ends | None = None,
) -> list[Executor | None]:
    """What attends to this pack in each layer; None for plain attention.

    relatives: what relative positions add in each layer; row_length: of the padded rows that the pack came from; ends:
    of its sequences, where one kernel must take them all (a recorded graph has no other way).
    """
    found = []
    one: Executor | None
    flash = _flash_executor(config, batch, dtype, ends)
    for depth, (relative, angles) in enumerate(
        zip(relatives, angles_of(config, batch.position_ids, dtype), strict=True)
    ):
        is_plain = relative is None and batch.distances is None and rule_of(config, depth, training) is None
        if flash is not None and is_plain:
            one = flash
        elif config.attention == "causal":
            one = _causal_executor(relative, batch)
        else:
            one = _executor(rule_of(config, depth, training), relative, batch, row_length)
        if angles is not None:
            one = partial(attend_rotary, angles=angles, executor=one)
        found.append(one)
    return found


def _flash_executor(config: ModelConfig, batch: Batch, dtype: torch.dtype, ends: Ends | None) -> Executor | None:
    """One kernel for the whole pack, where there is one and it has sequences of several lengths.

    Those of one length are as fast as views of the pack.
    """
    if ends is None:
        several = batch.input_ids.device.type == "cuda" and len(batch.runs) > 1
        if not several or missing(dtype, batch.input_ids.device, config.head_dim) is not None:
            return None
        ends = batch.ends
    return partial(attend_varlen, ends=ends, causal=config.attention == "causal")


def remembering(
    config: ModelConfig,
    batch: Batch,
    cache: KeyValueCache,
    where: Where,
    dtype: torch.dtype,
    relatives: Sequence[RelativePositions | None],
) -> list[Executor]:
    """What attends to a pack of texts in each layer of a causal network and keeps their keys and values in `cache`.

    where: row and column of each token in it.
    """
    found: list[Executor] = []
    for depth, (relative, angles) in enumerate(
        zip(relatives, angles_of(config, batch.position_ids, dtype), strict=True)
    ):
        one: Executor = partial(cache.remember, depth=depth, where=where, attend=_causal_executor(relative, batch))
        found.append(one if angles is None else partial(attend_rotary, angles=angles, executor=one))
    return found


def looking_back(
    config: ModelConfig,
    position_ids: Tensor,
    cache: KeyValueCache,
    dtype: torch.dtype,
    relatives: Sequence[RelativePositions | None],
) -> list[Executor]:
    """What attends in each layer for one new token of each row of `cache`. position_ids: int64 [rows]."""
    found: list[Executor] = []
    for depth, (relative, angles) in enumerate(zip(relatives, angles_of(config, position_ids, dtype), strict=True)):
        one: Executor = partial(cache.look_back, depth=depth, relative=relative)
        found.append(one if angles is None else partial(attend_rotary, angles=angles, executor=one))
    return found


def _causal_executor(relative: RelativePositions | None, batch: Batch) -> Executor:
    if relative is None and batch.distances is not None:
        raise ConfigError("A pack with distances of its own goes with relative positions.")
    if relative is None:
        return partial(attend, causal=True)
    return partial(attend_relative, relative=relative, positions=batch.places, distances=batch.distances, causal=True)


def _executor(
    rule: AttentionRule | None, relative: RelativePositions | None, batch: Batch, row_length: int | None
) -> Executor | None:
    places = batch.places
    if batch.distances is not None:
        if relative is None or rule is not None:
            raise ConfigError("A pack with distances of its own goes with relative positions and attention to all.")
        return partial(attend_relative, relative=relative, distances=batch.distances)
    if rule is None:
        return None if relative is None else partial(attend_relative, relative=relative, positions=places)
    if isinstance(rule, PublishedBigBird):
        length = row_length
    elif isinstance(rule, SlidingWindow) and places is not None:
        length = row_length or int(places.max()) + 1
    else:  # blocks of our own rules are made of what a sequence keeps
        places = length = None
    return partial(attend_sparse, rule=rule, relative=relative, positions=places, padded_length=length)
