"""Attention: every token looks at every token of its own sequence (Vaswani et al. 2017, section 3.2).

Two executors give the same numbers. The explicit one multiplies, soft-maxes and multiplies again: it can
return the weights. The fused one calls torch's kernel. Both work on runs, neighbours of equal length in a
pack, as views of the one q, k, v projection: no mask, no padding, no gather, and no way for one sequence to
see another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .dropout import dropout
from .linear import Linear
from .padded_attention import Group, attend_group, plan
from .query_blocks import attend_in_blocks
from .runs import Run

# Scores of more elements than this are worked on in parts that stay in the processor's cache: 1.7 to 2.5
# times as fast at 512 tokens.
CACHED_SCORES = 1 << 21
# Where those of a single sequence are more than this, training takes its queries in blocks (query_blocks.py).
LONG_SCORES = 1 << 22

# On a CPU the explicit product wins below these lengths, forward and backward: float32, and bfloat16 (where
# the fused kernel's backward pass takes 2 to 5 times as long at every length; from 1,024 tokens the memory of
# the weights counts).
FUSED_FROM = 256
FUSED_FROM_HALF = 1024


def self_attention(x: Tensor) -> Tensor:
    """Self-attention without parameters: z_i = sum_j softmax_j(x_i . x_j) x_j.

    x: float [..., tokens, hidden]. Returns the same shape. Permuting the tokens permutes the result: order is
    unknown to it. There is no scale: q, k and v are x itself.
    """
    return torch.softmax(x @ x.mT, dim=-1) @ x


def scaled_dot_product(
    query: Tensor, key: Tensor, value: Tensor, dropout_probability: float = 0.0, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """softmax(q k^T / sqrt(head_dim)) v, the explicit way (equation 1).

    query, key, value: float [..., tokens, head_dim]. Returns context [..., tokens, head_dim] and weights
    [..., tokens, tokens], each row of which sums to 1. The scale keeps the variance of a score at 1 whatever
    head_dim is. Dropout falls on the weights that multiply the values, not on those that are returned.
    causal: no token sees a later one (section 3.2.3).
    """
    scores = (query * (1.0 / math.sqrt(query.shape[-1]))) @ key.mT  # [..., tokens, tokens]
    if causal:
        hide_later(scores)
    weights = torch.softmax(scores, dim=-1)
    return dropout(weights, dropout_probability) @ value, weights


def hide_later(scores: Tensor) -> None:
    """Rule out, in place, every key that stands after its query. scores: float [..., tokens, tokens]."""
    length = scores.shape[-1]
    is_later = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)  # [tokens, tokens]
    scores.masked_fill_(is_later, -math.inf)


def fused_scaled_dot_product(
    query: Tensor, key: Tensor, value: Tensor, dropout_probability: float = 0.0, causal: bool = False
) -> Tensor:
    """The same context by torch's fused kernel, which never holds the weights.

    query, key, value: float [count, heads, length, head_dim]. Returns float [count, heads, length, head_dim].
    """
    return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout_probability, is_causal=causal)


def attend(
    qkv: Tensor,
    runs: Sequence[Run],
    num_heads: int,
    *,
    dropout_probability: float = 0.0,
    want_weights: bool = False,
    fused: bool | None = None,
    causal: bool = False,
) -> tuple[Tensor, tuple[Tensor, ...] | None]:
    """Attend inside each sequence of a pack.

    qkv: float [tokens, 3 * hidden], the queries, then keys, then values of all heads; runs: cover every token
    once, in order; fused: which executor (None lets the length decide); causal: no token sees a later one of its
    sequence. Returns context [tokens, hidden] and, if wanted, one weight tensor [heads, length, length] per sequence,
    in order.
    """
    hidden = qkv.shape[1] // 3
    pieces: list[tuple[Group | Run, bool]] = []  # fused or not
    for part in _parts(qkv, runs, num_heads, want_weights, fused):
        if isinstance(part, Group):
            pieces.append((part, False))
            continue
        use_fused = not want_weights and (
            _fused_is_faster(qkv, part.length, dropout_probability) if fused is None else fused
        )
        most = part.count if use_fused else max(1, CACHED_SCORES // (num_heads * part.length * part.length))
        pieces += [
            (Run(0, min(most, part.count - done), part.length), use_fused) for done in range(0, part.count, most)
        ]
    contexts: list[Tensor] = []
    weights: list[Tensor] = []
    # One split for all pieces: its backward is one concatenation, where a slice each would fill [tokens, 3 *
    # hidden].
    splits = qkv.split([piece.tokens for piece, _ in pieces])
    for split, (piece, use_fused) in zip(splits, pieces, strict=True):
        if isinstance(piece, Group):
            contexts.append(attend_group(split, piece, num_heads, dropout_probability, hide_later if causal else None))
            continue
        heads = split.view(piece.count, piece.length, 3, num_heads, hidden // num_heads).permute(2, 0, 3, 1, 4)
        query, key, value = heads.unbind()  # each [count, heads, length, head_dim]
        if use_fused:
            context = fused_scaled_dot_product(query, key, value, dropout_probability, causal)
        elif _is_long(split, piece, num_heads) and not want_weights:
            context = attend_in_blocks(query, key, value, dropout_probability, causal, CACHED_SCORES)
        else:
            context, piece_weights = scaled_dot_product(query, key, value, dropout_probability, causal)
            if want_weights:
                weights += piece_weights.unbind()  # each [heads, length, length]
        contexts.append(context.transpose(1, 2).reshape(piece.tokens, hidden))
    context = contexts[0] if len(contexts) == 1 else torch.cat(contexts or [qkv[:, :hidden]])
    return context, tuple(weights) if want_weights else None


def _parts(
    qkv: Tensor, runs: Sequence[Run], num_heads: int, want_weights: bool, fused: bool | None
) -> Sequence[Group | Run]:
    """The runs, joined to padded groups where a CPU trains: there the many small kernels of short runs cost most.

    Inference keeps the runs, where a text's numbers do not depend on its neighbours to the last bit.
    """
    if want_weights or fused is not None or not qkv.requires_grad or qkv.device.type != "cpu":
        return runs
    return plan(tuple(runs), num_heads, CACHED_SCORES)


def _is_long(qkv: Tensor, run: Run, num_heads: int) -> bool:
    """Whether the scores of one sequence do not stay in the cache, and are needed for gradients."""
    return qkv.requires_grad and num_heads * run.length * run.length > LONG_SCORES


def _fused_is_faster(qkv: Tensor, length: int, dropout_probability: float) -> bool:
    """Whether the fused kernel beats the explicit product for sequences of `length` tokens.

    docs/decisions/packed-batches.md has the measurements behind the two lengths.
    """
    if qkv.device.type != "cpu":
        return True
    if dropout_probability > 0.0:
        return False  # torch's CPU kernel has no dropout and would fall back to a slower explicit product
    return length >= (FUSED_FROM_HALF if qkv.dtype in (torch.bfloat16, torch.float16) else FUSED_FROM)


class Executor(Protocol):
    """What attends inside each sequence: `attend`, or it with a rule or relative positions bound to it."""

    def __call__(
        self, qkv: Tensor, runs: Sequence[Run], num_heads: int, *, dropout_probability: float, want_weights: bool
    ) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """qkv: float [tokens, 3 * hidden]; see `attend`."""


class SelfAttention(nn.Module):
    """Multi-head self-attention: project to q, k, v of all heads, attend per head, project back.

    The heads' contexts are concatenated, [tokens, heads * head_dim], and multiplied by W_O (section 3.2.2).
    """

    def __init__(self, hidden_size: int, num_heads: int, attention_dropout: float, bias: bool = True) -> None:
        super().__init__()
        self.qkv = Linear(hidden_size, 3 * hidden_size, bias)
        self.out = Linear(hidden_size, hidden_size, bias)
        self.num_heads = num_heads
        self.attention_dropout = attention_dropout

    def forward(
        self, hidden: Tensor, runs: Sequence[Run], want_weights: bool = False, executor: Executor | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """hidden: float [tokens, hidden]; runs: as `attend` takes them; executor: what attends instead of `attend`.

        Returns float [tokens, hidden] and, if wanted, weights [heads, length, length] of each sequence.
        """
        context, weights = (executor or attend)(
            self.qkv(hidden),
            runs,
            self.num_heads,
            dropout_probability=self.attention_dropout if self.training else 0.0,
            want_weights=want_weights,
        )
        return self.out(context), weights
