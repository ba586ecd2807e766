"""Attention over neighboring sequences of similar length as one product, for training on a CPU.

A batch of short texts has almost as many lengths as texts, and each run launches dozens of small kernels, forward and
backward, which cost more than the arithmetic. Runs of similar length are therefore padded to the longest of them,
inside attention only, where the padding costs less than the kernels it saves. A padding position repeats the first
token of its own sequence and is masked for all queries, so no sequence affects another; it has no gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from .dropout import dropout
from .function import Function
from .runs import Run

# Cost of the kernels of one run, forward and backward, in equivalent elements of a score matrix
# (measured in docs/explanation/decisions/packed-batches.md).
RUN_COST = 50_000


@dataclass(frozen=True)
class Group:
    """Neighboring runs padded to `length`: `count` sequences with `tokens` tokens in total.

    token_of_slot: int64 [count * length], token index of each slot; slot_of_token: int64 [tokens], its inverse;
    is_padding: bool [count * length].
    """

    count: int
    length: int
    tokens: int
    token_of_slot: Tensor
    slot_of_token: Tensor
    is_padding: Tensor


@lru_cache(maxsize=64)
def plan(runs: tuple[Run, ...], num_heads: int, most_scores: int) -> tuple[Group | Run, ...]:
    """Joins runs, in order, into groups of at most `most_scores` scores where that is faster.

    Cached, because all layers of a step share their runs.
    """
    parts: list[list[Run]] = []
    for run in runs:
        if parts and _saves(parts[-1], run, num_heads, most_scores):
            parts[-1].append(run)
        else:
            parts.append([run])
    return tuple(part[0] if len(part) == 1 else _group(part) for part in parts)


def _saves(part: list[Run], run: Run, num_heads: int, most_scores: int) -> bool:
    """Whether adding `run` to `part` saves more than its padding costs."""
    together = _padded_scores([*part, run], num_heads)
    apart = _padded_scores(part, num_heads) + _padded_scores([run], num_heads)
    return together <= most_scores and together - apart < RUN_COST


def _padded_scores(runs: list[Run], num_heads: int) -> int:
    longest = max(run.length for run in runs)
    return num_heads * longest * longest * sum(run.count for run in runs)


def _group(runs: list[Run]) -> Group:
    lengths = torch.tensor([run.length for run in runs for _ in range(run.count)])  # [count]
    longest, tokens = int(lengths.max()), int(lengths.sum())
    begins = lengths.cumsum(0) - lengths  # [count]
    places = torch.arange(longest)  # [length]
    is_padding = places >= lengths[:, None]  # [count, length]
    token_of_slot = torch.where(is_padding, begins[:, None], begins[:, None] + places).view(-1)
    is_padding = is_padding.view(-1)
    slot_of_token = torch.arange(len(is_padding))[~is_padding]
    return Group(len(lengths), longest, tokens, token_of_slot, slot_of_token, is_padding)


def attend_group(
    qkv: Tensor,
    group: Group,
    num_heads: int,
    dropout_probability: float = 0.0,
    hide: Callable[[Tensor], None] | None = None,
) -> Tensor:
    """softmax(q k^T / sqrt(head_dim)) v within each sequence of a group.

    qkv: float [group.tokens, 3 * hidden]; hide: masks more keys, in place, in scores [count, heads, length, length].
    Returns float [group.tokens, hidden].
    """
    hidden = qkv.shape[1] // 3
    padded = pad(qkv, group)  # [count * length, 3 * hidden]
    heads = padded.view(group.count, group.length, 3, num_heads, hidden // num_heads).permute(2, 0, 3, 1, 4)
    query, key, value = heads.unbind()  # each [count, heads, length, head_dim]
    scores = (query * (1.0 / math.sqrt(query.shape[-1]))) @ key.mT  # [count, heads, length, length]
    mask_scores(scores, group.is_padding.view(group.count, 1, 1, group.length))
    if hide is not None:
        hide(scores)
    context = dropout(torch.softmax(scores, dim=-1), dropout_probability) @ value
    return unpad(context.transpose(1, 2).reshape(group.count * group.length, hidden), group)


def mask_scores(scores: Tensor, is_masked: Tensor) -> None:
    """Sets scores to -inf, in place, before a softmax. is_masked: bool, broadcastable to the shape of scores [...].

    Not recorded for the gradient: softmax gives a masked score a weight and a gradient of zero by itself.
    """
    scores.detach().masked_fill_(is_masked, -math.inf)


def group_of(lengths: Sequence[int], device: torch.device | str = "cpu") -> Group:
    """Builds a group of sequences of these lengths, padded to the longest."""
    made = _group([Run(0, 1, length) for length in lengths])
    parts = (made.token_of_slot, made.slot_of_token, made.is_padding)
    return Group(made.count, made.length, made.tokens, *(part.to(device) for part in parts))


def pad(x: Tensor, group: Group) -> Tensor:
    """x: float [group.tokens, size]. Returns [count * length, size], padded with the first token of each sequence."""
    result: Tensor = x if len(x) == group.count * group.length else _Pad.apply(x, group)
    return result


def unpad(x: Tensor, group: Group) -> Tensor:
    """x: float [count * length, size]. Returns [group.tokens, size]."""
    result: Tensor = x if len(x) == group.tokens else _Unpad.apply(x, group)
    return result


class _Pad(Function):
    """[tokens, size] to [count * length, size]."""

    @staticmethod
    def forward(context: Any, x: Tensor, group: Group) -> Tensor:
        """x: [tokens, size]. Copies tokens to their slots, and the first of each sequence to its padding."""
        context.group = group
        return x.index_select(0, group.token_of_slot)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """gradients: one, [count * length, size]; padding has no gradient."""
        return gradients[0].index_select(0, context.group.slot_of_token), None


class _Unpad(Function):
    """[count * length, size] to [tokens, size]."""

    @staticmethod
    def forward(context: Any, x: Tensor, group: Group) -> Tensor:
        """x: [count * length, size]. Removes the padding."""
        context.group = group
        return x.index_select(0, group.slot_of_token)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """gradients: one, [tokens, size]; padding gets a gradient of zero."""
        group: Group = context.group
        spread = gradients[0].index_select(0, group.token_of_slot)
        return spread.masked_fill_(group.is_padding[:, None], 0.0), None
