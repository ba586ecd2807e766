"""Self-attention: every token attends to every token of its own sequence (Vaswani et al. 2017, section 3.2).

There are two implementations with the same results: explicit matrix products, which can return the weights, and
torch's fused kernel. Both work on runs (neighboring sequences of equal length in a pack), as views of the joint q, k, v
projection: no mask, no padding, no gather, and no attention between sequences.
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
from .padded_attention import Group, attend_group, mask_scores, plan
from .query_blocks import attend_in_blocks
from .runs import Run

# Larger score matrices are computed in parts that fit the CPU cache: 1.7 to 2.5 times as fast at 512 tokens.
CACHED_SCORES = 1 << 21
# If one sequence has more scores than this, training processes its queries in blocks (query_blocks.py).
LONG_SCORES = 1 << 22

# On a CPU the explicit product is faster below these lengths, forward and backward: float32, and half precision. The
# backward pass of the fused bfloat16 kernel takes 2 to 5 times as long at every length; from 1,024 tokens on, memory
# use favors it.
FUSED_FROM = 256
FUSED_FROM_HALF = 1024


def self_attention(x: Tensor) -> Tensor:
    """Self-attention without parameters: z_i = sum_j softmax_j(x_i . x_j) x_j.

    x: float [..., tokens, hidden]. Returns the same shape. It has no notion of order: permuting the tokens permutes
    the result. There is no scale: q, k and v are x itself.
    """
    return torch.softmax(x @ x.mT, dim=-1) @ x


def scaled_dot_product(
    query: Tensor, key: Tensor, value: Tensor, dropout_probability: float = 0.0, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """softmax(q k^T / sqrt(head_dim)) v as explicit products (equation 1).

    query, key, value: float [..., tokens, head_dim]. Returns context [..., tokens, head_dim] and weights
    [..., tokens, tokens], each row of which sums to 1. The scale keeps the variance of a score at 1 for every
    head_dim. Dropout applies to the weights that multiply the values, not to the returned ones.
    causal: no token attends to a later one (section 3.2.3).
    """
    scores = (query * (1.0 / math.sqrt(query.shape[-1]))) @ key.mT  # [..., tokens, tokens]
    if causal:
        apply_causal_mask(scores)
    weights = torch.softmax(scores, dim=-1)
    return dropout(weights, dropout_probability) @ value, weights


def apply_causal_mask(scores: Tensor) -> None:
    """Masks, in place, every key after its query with -inf. scores: float [..., tokens, tokens]."""
    length = scores.shape[-1]
    is_later = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)  # [tokens, tokens]
    mask_scores(scores, is_later)


def fused_scaled_dot_product(
    query: Tensor, key: Tensor, value: Tensor, dropout_probability: float = 0.0, causal: bool = False
) -> Tensor:
    """The same context with torch's fused kernel, which does not store the weights.

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
    """Self-attention within each sequence of a pack.

    Args:
        qkv: float [tokens, 3 * hidden]: queries, keys and values of all heads.
        runs: Cover every token once, in order.
        fused: Which implementation; None chooses by length and device.
        causal: No token attends to a later one of its sequence.

    Returns context [tokens, hidden] and, if wanted, one weight tensor [heads, length, length] per sequence, in order.
    """
    hidden = qkv.shape[1] // 3
    parts: list[tuple[Group | Run, bool]] = []  # with whether it is fused
    for part in _parts(qkv, runs, num_heads, want_weights, fused):
        if isinstance(part, Group):
            parts.append((part, False))
            continue
        use_fused = not want_weights and (
            _fused_is_faster(qkv, part.length, dropout_probability) if fused is None else fused
        )
        most = part.count if use_fused else max(1, CACHED_SCORES // (num_heads * part.length * part.length))
        parts += [(Run(0, min(most, part.count - done), part.length), use_fused) for done in range(0, part.count, most)]
    contexts: list[Tensor] = []
    weights: list[Tensor] = []
    # One split for all parts: its backward pass is one concatenation; separate slices would each fill
    # [tokens, 3 * hidden].
    splits = qkv.split([part.tokens for part, _ in parts])
    for split, (part, use_fused) in zip(splits, parts, strict=True):
        if isinstance(part, Group):
            contexts.append(
                attend_group(split, part, num_heads, dropout_probability, apply_causal_mask if causal else None)
            )
            continue
        heads = split.view(part.count, part.length, 3, num_heads, hidden // num_heads).permute(2, 0, 3, 1, 4)
        query, key, value = heads.unbind()  # each [count, heads, length, head_dim]
        if use_fused:
            context = fused_scaled_dot_product(query, key, value, dropout_probability, causal)
        elif _is_long(split, part, num_heads) and not want_weights:
            context = attend_in_blocks(query, key, value, dropout_probability, causal, CACHED_SCORES)
        else:
            context, part_weights = scaled_dot_product(query, key, value, dropout_probability, causal)
            if want_weights:
                weights += part_weights.unbind()  # each [heads, length, length]
        contexts.append(context.transpose(1, 2).reshape(part.tokens, hidden))
    context = contexts[0] if len(contexts) == 1 else torch.cat(contexts or [qkv[:, :hidden]])
    return context, tuple(weights) if want_weights else None


def _parts(
    qkv: Tensor, runs: Sequence[Run], num_heads: int, want_weights: bool, fused: bool | None
) -> Sequence[Group | Run]:
    """Returns the runs, joined into padded groups for training on a CPU, where many small kernels are slow.

    Inference keeps the runs, so that results are bitwise independent of the other sequences in the pack.
    """
    if want_weights or fused is not None or not qkv.requires_grad or qkv.device.type != "cpu":
        return runs
    return plan(tuple(runs), num_heads, CACHED_SCORES)


def _is_long(qkv: Tensor, run: Run, num_heads: int) -> bool:
    """Whether the scores of one sequence exceed the cache and are needed for gradients."""
    return qkv.requires_grad and num_heads * run.length * run.length > LONG_SCORES


def _fused_is_faster(qkv: Tensor, length: int, dropout_probability: float) -> bool:
    """Whether the fused kernel is faster than the explicit product for sequences of `length` tokens.

    See docs/explanation/decisions/packed-batches.md for the measurements of the two thresholds.
    """
    if qkv.device.type != "cpu":
        return True
    if dropout_probability > 0.0:
        return False  # torch's CPU kernel has no dropout and would use a slower explicit product
    return length >= (FUSED_FROM_HALF if qkv.dtype in (torch.bfloat16, torch.float16) else FUSED_FROM)


class Executor(Protocol):
    """Function that attends within each sequence: `attend`, or a variant with its options bound."""

    def __call__(
        self, qkv: Tensor, runs: Sequence[Run], num_heads: int, *, dropout_probability: float, want_weights: bool
    ) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """qkv: float [tokens, 3 * hidden]; see `attend`."""


class SelfAttention(nn.Module):
    """Multi-head self-attention: project to q, k, v of all heads, attend per head, project back.

    The head contexts are concatenated, [tokens, heads * head_dim], and multiplied by W_O (section 3.2.2).

    Args:
        qkv_bias: Whether the q, k, v projection has a bias (if `bias`).
        query_scale: Factor applied to the queries, and so to all scores.
        upcast: Compute attention in float32 for half-precision inputs.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        attention_dropout: float,
        bias: bool = True,
        *,
        qkv_bias: bool = True,
        query_scale: float = 1.0,
        upcast: bool = False,
    ) -> None:
        super().__init__()
        self.qkv = Linear(hidden_size, 3 * hidden_size, bias and qkv_bias)
        self.out = Linear(hidden_size, hidden_size, bias)
        self.num_heads = num_heads
        self.attention_dropout = attention_dropout
        self.query_scale, self.upcast = query_scale, upcast

    def project(self, hidden: Tensor) -> Tensor:
        """Queries, keys and values of all heads: float [tokens, 3 * hidden]. hidden: float [tokens, hidden]."""
        return self.scaled(self.qkv(hidden))

    def scaled(self, qkv: Tensor) -> Tensor:
        """Multiplies the queries in the output of `qkv` by `query_scale`. qkv: float [tokens, 3 * hidden]."""
        if self.query_scale == 1.0:
            return qkv
        width = qkv.shape[-1] // 3
        return torch.cat([qkv[..., :width] * self.query_scale, qkv[..., width:]], dim=-1)

    def forward(
        self, hidden: Tensor, runs: Sequence[Run], want_weights: bool = False, executor: Executor | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """hidden: float [tokens, hidden]; runs: as in `attend`; executor: used instead of `attend`.

        Returns float [tokens, hidden] and, if wanted, weights [heads, length, length] of each sequence.
        """
        qkv = self.project(hidden)
        context, weights = (executor or attend)(
            in_float32(qkv) if self.upcast else qkv,
            runs,
            self.num_heads,
            dropout_probability=self.attention_dropout if self.training else 0.0,
            want_weights=want_weights,
        )
        return self.out(context.to(qkv.dtype)), weights


def in_float32(qkv: Tensor) -> Tensor:
    """Converts half precision to float32, returns other dtypes unchanged: float [...]."""
    return qkv.float() if qkv.dtype in (torch.bfloat16, torch.float16) else qkv
