"""What layers compute besides products in training, in C++ (training.cpp): attention, addition and norm, dropout.

In float32 on CPUs with AVX-512. Dropout draws its seed from torch's default generator, and other elements than torch's
operators would. Nothing depends on the number of threads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..functions import Function, first_derivative_only
from .library import LOCK, address, library, numbers_of_runs, unsuitable

HEAD_SIZES, MULTIPLE = (16, 32, 48, 64), 32  # sizes of a head; of a vector that is normalized
LEVELS = 1 << 16  # of the probability of dropout
ROWS = 64  # of training.cpp
TOLERANCE = 3e-5  # largest difference from torch's operators, relative to the largest of their numbers


@cache
def missing() -> str | None:
    """Returns why training.cpp cannot be used here; None if it can."""
    with LOCK:
        reason = unsuitable() or library()
        if isinstance(reason, str):
            return reason
        try:
            with ThreadPoolExecutor(1) as pool:  # where the modes of the caller do not hold, such as autocast
                worst = pool.submit(_difference).result()
        except (RuntimeError, AttributeError, TypeError) as error:  # raised by torch if an operator changed
            return f"it cannot be compared with torch ({error})"
        return None if worst <= TOLERANCE else f"it differs from torch's operators by {worst:.1e} on this CPU"


_is_allowed = ContextVar("is_allowed", default=True)


@contextmanager
def allowed(is_allowed: bool) -> Iterator[None]:
    """Whether it is used inside the block: a resumed run draws dropout as it began."""
    token = _is_allowed.set(is_allowed)
    try:
        yield
    finally:
        _is_allowed.reset(token)


def is_used() -> bool:
    """Whether it is allowed and works; False if this process did not need the library, which is not compiled to ask."""
    return _is_allowed.get() and library.cache_info().currsize > 0 and missing() is None


def fits(*vectors: Tensor) -> bool:
    """Whether training.cpp computes with these: float32 on a CPU, and not inside torch.compile and torch.func."""
    return (
        all(one.device.type == "cpu" and one.dtype == torch.float32 for one in vectors)
        and all(type(one) in (Tensor, torch.nn.Parameter) for one in vectors)  # others may have no memory
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
        and _is_allowed.get()
        and missing() is None
    )


def attend(
    qkv: Tensor, runs: Sequence[Any], num_heads: int, dropout_probability: float = 0.0, causal: bool = False
) -> Tensor:
    """Self-attention within each sequence of a pack: the context, float [tokens, hidden]. See `nn.attention.attend`.

    Raises ValueError for runs that do not cover the tokens, and heads that do not divide the vectors.
    """
    tokens = sum(run.count * run.length for run in runs)
    if tokens != len(qkv) or qkv.shape[1] % (3 * num_heads):
        raise ValueError(f"runs of {tokens} tokens and {num_heads} heads do not fit qkv of shape {list(qkv.shape)}")
    context: Tensor = _Attention.apply(qkv.contiguous(), runs, num_heads, dropout_probability, causal)
    return context


def add_and_norm(
    hidden: Tensor, added: Tensor, weight: Tensor, bias: Tensor, eps: float, dropout_probability: float = 0.0
) -> Tensor:
    """The layer norm of hidden + dropout(added). Both and the result: float [tokens, size]."""
    vectors = (one.contiguous() for one in (hidden, added, weight, bias))
    result: Tensor = _AddAndNorm.apply(*vectors, eps, dropout_probability)
    return result


def dropout(x: Tensor, probability: float) -> Tensor:
    """See `nn.layers.dropout`."""
    result: Tensor = _Dropout.apply(x, _draws(probability))
    return result


def _draws(probability: float) -> tuple[ctypes.c_uint64, ctypes.c_int64]:
    """A seed, and the 16 bits below which an element is dropped."""
    if probability == 0.0:
        return ctypes.c_uint64(0), ctypes.c_int64(0)
    seed = int(torch.randint(-(1 << 63), (1 << 63) - 1, (), dtype=torch.int64, device="cpu"))
    return ctypes.c_uint64(seed), ctypes.c_int64(min(max(round(probability * LEVELS), 1), LEVELS - 1))


def _call(name: str, *arguments: Any) -> Any:
    """Calls a function of training.cpp with as many threads as torch uses."""
    return getattr(library(), name)(*arguments, ctypes.c_int64(torch.get_num_threads()))


class _Attention(Function):
    """Stores qkv, the context and a number for each row of weights."""

    @staticmethod
    def forward(
        context: Any, qkv: Tensor, runs: Sequence[Any], num_heads: int, dropout_probability: float, causal: bool
    ) -> Tensor:
        """See `attend`."""
        tokens, hidden = len(qkv), qkv.shape[1] // 3
        result, logs = qkv.new_empty(tokens, hidden), qkv.new_empty(tokens, num_heads)
        head_dim, context.runs = hidden // num_heads, numbers_of_runs(runs)
        numbers = len(runs), num_heads, head_dim, causal
        context.numbers = *map(ctypes.c_int64, numbers), ctypes.c_float(head_dim**-0.5), *_draws(dropout_probability)
        _attend_in_cpp(qkv, result, logs, None, None, context)
        context.save_for_backward(qkv, result, logs)
        return result

    @staticmethod
    @first_derivative_only
    def backward(context: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        """slope: float [tokens, hidden]. Returns that of qkv, [tokens, 3 * hidden]."""
        qkv, result, logs = context.saved_tensors
        gradient = torch.empty_like(qkv)
        _attend_in_cpp(qkv, result, logs, slope.contiguous(), gradient, context)
        return gradient, None, None, None, None


def _attend_in_cpp(
    qkv: Tensor, result: Tensor, logs: Tensor, slope: Tensor | None, gradient: Tensor | None, context: Any
) -> None:
    places = map(address, (qkv, result, logs, slope, gradient, context.runs))
    if not _call("attend", *places, *context.numbers):
        raise MemoryError(f"not enough memory for the attention of {len(qkv):,} tokens")


class _AddAndNorm(Function):
    """Stores the sums, and two numbers for each."""

    @staticmethod
    def forward(
        context: Any, hidden: Tensor, added: Tensor, weight: Tensor, bias: Tensor, eps: float, probability: float
    ) -> Tensor:
        """See `add_and_norm`."""
        sums, result, stats = torch.empty_like(hidden), torch.empty_like(hidden), hidden.new_empty(len(hidden), 2)
        context.numbers, context.draws = tuple(map(ctypes.c_int64, hidden.shape)), _draws(probability)
        places = map(address, (hidden, added, weight, bias, sums, result, stats))
        _call("add_norm", *places, *context.numbers, ctypes.c_float(eps), *context.draws)
        context.save_for_backward(sums, stats, weight)
        return result

    @staticmethod
    @first_derivative_only
    def backward(context: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        """slope: float [tokens, size], as the gradients of hidden and added; those of weight and bias: [size]."""
        sums, stats, weight = context.saved_tensors
        tokens, size = sums.shape
        slope, for_hidden, for_added = slope.contiguous(), torch.empty_like(sums), torch.empty_like(sums)
        for_norm = sums.new_empty(-(-tokens // ROWS), 2, size)
        places = map(address, (slope, sums, stats, weight, for_hidden, for_added, for_norm))
        _call("add_norm_backward", *places, *context.numbers, *context.draws)
        return for_hidden, for_added, *for_norm.sum(dim=0), None, None


class _Dropout(Function):
    """Stores the seed."""

    @staticmethod
    def forward(context: Any, x: Tensor, draws: tuple[ctypes.c_uint64, ctypes.c_int64]) -> Tensor:
        """x: any shape [...], as the result."""
        context.draws, x = draws, x.contiguous()
        result = torch.empty_like(x)
        _call("drop", address(x), address(result), ctypes.c_int64(x.numel()), *draws)
        return result

    @staticmethod
    def backward(context: Any, slope: Tensor) -> tuple[Tensor, None]:
        """The same function of the slope, of any shape [...]."""
        return _Dropout.apply(slope, context.draws), None


# -- Tries it once in each process -----------------------------------------------------------------------------------

_HEADS, _HEAD_SIZE = 12, 32


def _difference() -> float:
    """The largest difference from torch's operators, relative to the largest of their numbers; NaN if any is."""
    pairs = zip(_try(attend, add_and_norm), _try(_attend, _add_norm), strict=True)
    return float(torch.stack([(one - other).abs().max() / other.abs().max() for one, other in pairs]).max())


def _attend(qkv: Tensor, runs: Sequence[Any], num_heads: int) -> Tensor:
    """The same context by torch's operators."""
    contexts = []
    for run, part in zip(runs, qkv.split([run.count * run.length for run in runs]), strict=True):
        heads = part.view(run.count, run.length, 3, num_heads, -1).permute(2, 0, 3, 1, 4).unbind()
        contexts.append(F.scaled_dot_product_attention(*heads).transpose(1, 2).reshape(len(part), -1))
    return torch.cat(contexts)


def _add_norm(hidden: Tensor, added: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    return F.layer_norm(hidden + added, weight.shape, weight, bias, eps)


def _try(attend_by: Callable[..., Tensor], norm: Callable[..., Tensor]) -> list[Tensor]:
    """Both functions on random numbers: the result and the gradients."""
    draws, size = torch.Generator().manual_seed(0), _HEADS * _HEAD_SIZE
    runs = [SimpleNamespace(count=count, length=length) for count, length in ((2, 3), (1, 37), (2, 40))]
    tokens = sum(run.count * run.length for run in runs)
    shapes = (tokens, 3 * size), (tokens, size), (size,), (size,), (tokens, size)
    *inputs, slope = (torch.randn(shape, generator=draws, dtype=torch.float32, device="cpu") for shape in shapes)
    inputs = [one.requires_grad_() for one in inputs]
    result = norm(attend_by(inputs[0], runs, _HEADS), *inputs[1:], 1e-12)
    return [result.detach(), *torch.autograd.grad(result, inputs, slope)]
