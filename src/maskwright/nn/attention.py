"""Attention over packed sequences: runs of equal length, on CPUs and GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .functions import Function
from .layers import Linear, dropout, preserve_generators
from .native import training as training_kernels

# -- Runs: neighboring sequences of equal length in a pack -----------------------------------------------------------


class Run(NamedTuple):
    """`count` neighboring sequences of `length` tokens each; `start` is the index of the first token."""

    start: int
    count: int  # type: ignore[assignment]  # a field, not tuple.count
    length: int

    @property
    def tokens(self) -> int:
        """Total number of tokens."""
        return self.count * self.length

    @property
    def stop(self) -> int:
        """Index after the last token."""
        return self.start + self.tokens


# -- Explicit attention for long sequences in training: blocks of queries, recomputed in the backward pass -----------
#
# torch's fused CPU kernel does not support dropout, and the scores of all queries, [heads, tokens, tokens] plus as many
# for each intermediate result, exceed the CPU cache and use much memory. Each block of queries has scores that fit the
# cache; the backward pass recomputes it, with the same dropout, instead of storing it (Rabe and Staats 2021, section 3;
# Chen et al. 2016). This takes a third more multiplications, and memory is linear instead of quadratic in the tokens.


def attend_in_blocks(
    query: Tensor, key: Tensor, value: Tensor, dropout_probability: float, causal: bool, most: int
) -> Tensor:
    """The context of `scaled_dot_product`, computed in blocks of queries.

    query: float [count, heads, tokens, head_dim]; key, value: the same, or of another number of tokens unless causal:
    no token attends to a later one; most: maximum score elements of one block. Returns the shape of query.
    """
    count, heads, tokens, _ = query.shape
    rows = max(1, most // (count * heads * key.shape[2]))
    blocks = []
    for first in range(0, tokens, rows):
        last = key.shape[2] if not causal else min(first + rows, tokens)  # no attention beyond the end of the block
        part = query[:, :, first : first + rows], key[:, :, :last], value[:, :, :last]
        blocks.append(checkpoint(_block, *part, dropout_probability, first if causal else None, use_reentrant=False))
    return torch.cat(blocks, dim=2)


def _block(query: Tensor, key: Tensor, value: Tensor, dropout_probability: float, first: int | None) -> Tensor:
    """query: float [count, heads, rows, head_dim]; key, value: [count, heads, seen, head_dim]; first: first query of
    the block for causal attention, else None. Returns the shape of query.
    """
    scores = (query * (1.0 / math.sqrt(query.shape[-1]))) @ key.mT  # [count, heads, rows, seen]
    if first is not None:
        is_later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(first + 1)
        scores.masked_fill_(is_later, -math.inf)
    return dropout(torch.softmax(scores, dim=-1), dropout_probability) @ value


# -- Attention over neighboring sequences of similar length as one product, for training on a CPU --------------------
#
# A batch of short texts has almost as many lengths as texts, and each run launches dozens of small kernels, forward and
# backward, which cost more than the arithmetic. Runs of similar length are therefore padded to the longest of them,
# inside attention only, where the padding costs less than the kernels it saves. A padding position repeats the first
# token of its own sequence and is masked for all queries, so no sequence affects another; it has no gradient.


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


# -- Self-attention: every token attends to every token of its own sequence (Vaswani et al. 2017, section 3.2) -------
#
# There are two implementations with the same results: explicit matrix products, which can return the weights, and
# torch's fused kernel. Both work on runs (neighboring sequences of equal length in a pack), as views of the joint q, k,
# v projection: no mask, no padding, no gather, and no attention between sequences.


# Larger score matrices are computed in parts that fit the CPU cache: 1.7 to 2.5 times as fast at 512 tokens.
CACHED_SCORES = 1 << 21
# If one sequence has more scores than this, training processes its queries in blocks.
LONG_SCORES = 1 << 22

# On a CPU the explicit product is faster below these lengths, forward and backward: float32, and half precision. The
# backward pass of the fused bfloat16 kernel takes 2 to 5 times as long at every length; from 1,024 tokens on, memory
# use favors it.
FUSED_FROM = 256
FUSED_FROM_HALF = 1024
# In training without dropout, torch's fused kernel is faster than training.cpp from this length on.
FUSED_WITHOUT_DROPOUT = 1024


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
    in_cpp: bool = False,
) -> tuple[Tensor, tuple[Tensor, ...] | None]:
    """Self-attention within each sequence of a pack.

    Args:
        qkv: float [tokens, 3 * hidden]: queries, keys and values of all heads.
        runs: Cover every token once, in order.
        fused: Which implementation; None chooses by length and device.
        causal: No token attends to a later one of its sequence.
        in_cpp: Whether training.cpp computes it where it can, which has no second derivatives.

    Returns context [tokens, hidden] and, if wanted, one weight tensor [heads, length, length] per sequence, in order.
    """
    hidden = qkv.shape[1] // 3
    is_long = dropout_probability == 0.0 and any(run.length >= FUSED_WITHOUT_DROPOUT for run in runs)
    has_size = hidden // num_heads in training_kernels.HEAD_SIZES
    if in_cpp and not want_weights and has_size and not is_long and training_kernels.fits(qkv):
        return training_kernels.attend(qkv, runs, num_heads, dropout_probability, causal), None
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
        key_heads: Heads of keys and values, each used by num_heads / key_heads queries (Ainslie et al. 2023, section
            2.2); None for num_heads.
        head_dim: Size of a head; None for hidden_size / num_heads.
        qkv_bias: Whether the q, k, v projection has a bias (if `bias`); key_bias: whether its keys have one.
        query_scale: Factor applied to the queries, and so to all scores.
        upcast: Compute attention in float32 for half-precision inputs.
        has_global: Whether global tokens have a separate projection (nn/sparse.py).
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        attention_dropout: float,
        bias: bool = True,
        *,
        key_heads: int | None = None,
        head_dim: int | None = None,
        qkv_bias: bool = True,
        key_bias: bool = True,
        query_scale: float = 1.0,
        upcast: bool = False,
        has_global: bool = False,
    ) -> None:
        super().__init__()
        size = head_dim or hidden_size // num_heads
        self.num_heads, self.key_heads = num_heads, key_heads or num_heads
        rows = (num_heads + 2 * self.key_heads) * size
        self.qkv = Linear(hidden_size, rows, bias and qkv_bias, key_bias=key_bias)
        self.global_qkv = Linear(hidden_size, rows, bias and qkv_bias) if has_global else None
        self.out = Linear(num_heads * size, hidden_size, bias)
        self.attention_dropout = attention_dropout
        self.query_scale, self.upcast = query_scale, upcast

    def project(self, hidden: Tensor) -> Tensor:
        """Queries, keys and values of all heads: float [tokens, 3 * hidden]. hidden: float [tokens, hidden]."""
        return self.scaled(self.qkv(hidden))

    def scaled(self, qkv: Tensor) -> Tensor:
        """Multiplies the queries in the output of `qkv` by `query_scale`, and repeats shared keys and values.

        qkv: float [tokens, size of `qkv`]. Returns float [tokens, 3 * hidden], all heads of queries, keys and values.
        """
        if self.key_heads != self.num_heads:
            parts = qkv.unflatten(-1, (self.num_heads + 2 * self.key_heads, -1))  # [tokens, all heads, head_dim]
            query, both = parts.split((self.num_heads, 2 * self.key_heads), dim=-2)
            qkv = torch.cat([query, both.repeat_interleave(self.num_heads // self.key_heads, dim=-2)], -2).flatten(-2)
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
        context, weights = with_global(executor or attend, self.global_qkv, hidden)(
            in_float32(qkv) if self.upcast else qkv,
            runs,
            self.num_heads,
            dropout_probability=self.attention_dropout if self.training else 0.0,
            want_weights=want_weights,
        )
        return self.out(context.to(qkv.dtype)), weights


def with_global(executor: Executor, project: Callable[[Tensor], Tensor] | None, hidden: Tensor) -> Executor:
    """An executor that projects `hidden` for its global tokens if it has any; unchanged without `project`."""
    function: Any = executor
    return executor if project is None else partial(function, project_global=lambda: project(hidden))


def in_float32(qkv: Tensor) -> Tensor:
    """Converts half precision to float32, returns other dtypes unchanged: float [...]."""
    return qkv.float() if qkv.dtype in (torch.bfloat16, torch.float16) else qkv


# -- Attention within each sequence of a pack by one GPU kernel: variable-length flash attention (Dao 2023, section 3)
#
# The pack is passed as it is, [tokens, ...], with the sequence offsets: no views, no padding, no call per run. The
# operator is private to torch and used only here; before its first use it is compared with the explicit product,
# forward and backward. If it is missing, fails or differs, `missing` returns the reason and attention uses the runs.


DTYPES = (torch.bfloat16, torch.float16)
MAX_HEAD_DIM = 256
HEAD_DIM_MULTIPLE = 8  # the head dimension must be a multiple of this
TOLERANCE = 2e-2  # relative to the largest absolute value of the result
_CHECKED_LENGTHS = (5, 1, 37, 64)


@dataclass(frozen=True)
class SequenceOffsets:
    """Start offsets of the sequences of a pack, and the end: int32 [sequences + 1]; longest: maximum tokens."""

    offsets: Tensor
    longest: int


# query, key, value [tokens, heads, head_dim], offsets, dropout probability, causal -> context, the shape of query
Kernel = Callable[[Tensor, Tensor, Tensor, SequenceOffsets, float, bool], Tensor]


def flash(
    query: Tensor, key: Tensor, value: Tensor, ends: SequenceOffsets, dropout_probability: float, causal: bool
) -> Tensor:
    """softmax(q k^T / sqrt(head_dim)) v within each sequence.

    query, key, value, and the result: [tokens, heads, head_dim], bfloat16 or float16 on a GPU; differentiable.
    """
    lengths = (ends.offsets, ends.offsets, ends.longest, ends.longest)
    context: Tensor = torch.ops.aten._flash_attention_forward(
        query, key, value, *lengths, dropout_probability, causal, False
    )[0]
    return context


def attend_varlen(
    qkv: Tensor,
    runs: Sequence[Run],
    num_heads: int,
    *,
    ends: SequenceOffsets,
    causal: bool = False,
    dropout_probability: float = 0.0,
    want_weights: bool = False,
) -> tuple[Tensor, tuple[Tensor, ...] | None]:
    """Attention within each sequence of a pack, all runs at once.

    qkv: float [tokens, 3 * hidden]: queries, keys and values of all heads; ends: offsets of the same pack; the rest as
    in `attend`. Returns context [tokens, hidden]; weights come from `attend`, since this kernel does not store them.
    """
    if want_weights:
        return attend(qkv, runs, num_heads, causal=causal, dropout_probability=dropout_probability, want_weights=True)
    tokens, width = qkv.shape
    query, key, value = qkv.view(tokens, 3, num_heads, -1).unbind(1)  # each [tokens, heads, head_dim]
    return flash(query, key, value, ends, dropout_probability, causal).reshape(tokens, width // 3), None


def missing(dtype: torch.dtype, device: torch.device, head_dim: int) -> str | None:
    """Returns why the kernel is unavailable for this head dimension here; None if it is available."""
    if device.type != "cuda":
        return f"flash attention over packs needs a GPU, not {device.type}"
    if dtype not in DTYPES:
        return f"flash attention needs bfloat16 or float16, not {str(dtype).removeprefix('torch.')}"
    if head_dim > MAX_HEAD_DIM or head_dim % HEAD_DIM_MULTIPLE:
        return f"head dimension {head_dim} is not supported: flash attention needs multiples of 8 up to {MAX_HEAD_DIM}"
    return _checked(dtype, device, head_dim)


@cache
def _checked(dtype: torch.dtype, device: torch.device, head_dim: int) -> str | None:
    """The same by a trial run; torch's generators are restored."""
    with preserve_generators(device), torch.inference_mode(False), torch.enable_grad():
        try:
            worst = worst_difference(flash, dtype, device, head_dim)
        except (RuntimeError, AttributeError, TypeError, NotImplementedError) as error:
            said = str(error).strip().split("\n")[0][:120]
            return f"torch {torch.__version__} has no usable flash attention over packs ({said})"
    if not worst <= TOLERANCE:
        return f"flash attention over packs differs from the explicit product by {worst:.1e} on this device"
    return None


def worst_difference(kernel: Kernel, dtype: torch.dtype, device: torch.device, head_dim: int) -> float:
    """Maximum difference between a kernel and the explicit product on a small pack, relative to the largest value.

    Covers outputs and gradients, with and without causal masking. With dropout, only finite gradients are required.
    """
    lengths = list(_CHECKED_LENGTHS)
    draws = torch.Generator().manual_seed(0)
    start = torch.randn(sum(lengths), 3, 2, head_dim, generator=draws).to(device, dtype)
    slope = torch.randn(sum(lengths), 2, head_dim, generator=draws).to(device, dtype)
    offsets = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32, device=device)
    ends = SequenceOffsets(offsets, max(lengths))
    worst = 0.0
    for causal in (False, True):
        one, other = start.clone().requires_grad_(), start.clone().float().requires_grad_()
        query, key, value = one.unbind(1)
        found = kernel(query, key, value, ends, 0.0, causal)
        parts = [part.permute(1, 2, 0, 3) for part in other.split(lengths)]  # each [3, heads, length, head_dim]
        explicit = [scaled_dot_product(part[0], part[1], part[2], causal=causal)[0] for part in parts]
        wanted = torch.cat([context.transpose(0, 1) for context in explicit])
        found.backward(slope)
        wanted.backward(slope.float())
        assert one.grad is not None and other.grad is not None
        for ours, theirs in ((found, wanted), (one.grad, other.grad)):
            difference = ((ours.float() - theirs).abs().max() / theirs.abs().max()).detach()
            worst = max(worst, float(difference) if difference.isfinite() else float("inf"))
    dropped = start.clone().requires_grad_()
    query, key, value = dropped.unbind(1)
    kernel(query, key, value, ends, 0.5, False).backward(slope)
    is_finite = dropped.grad is not None and bool(dropped.grad.isfinite().all())
    return worst if is_finite else float("inf")
