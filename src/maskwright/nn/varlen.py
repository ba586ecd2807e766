"""Attention within each sequence of a pack by one GPU kernel: variable-length flash attention (Dao 2023, section 3).

The pack is passed as it is, [tokens, ...], with the sequence offsets: no views, no padding, no call per run. The
operator is private to torch and used only here; before its first use it is compared with the explicit product, forward
and backward. If it is missing, fails or differs, `missing` returns the reason and attention uses the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from .attention import attend, scaled_dot_product
from .generators import preserve_generators
from .runs import Run

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
