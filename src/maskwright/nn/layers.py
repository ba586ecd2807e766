"""Layers that work on each vector by itself, in the dtype of their input: linear, norm, dropout, feed-forward, LoRA.

Training keeps float32 weights, which are cast on use where hidden states are bfloat16. This is mixed precision without
autocast: the optimizer has float32 weights and gradients, and the matrix products run in bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .functions import Function
from .native import training as training_kernels


class Linear(nn.Module):
    """y = x W^T + b, computed in the dtype of x.

    weight: [out_size, in_size]; bias: [out_size], or None; a joint layer of queries, keys and values may have none for
    the keys (bias: [2 / 3 * out_size]); spread: factor on the standard deviation of the initialization. `models.build`
    fills every parameter from a keyed generator, so building a model never uses torch's global generator.
    """

    bias: nn.Parameter  # None without bias; typed non-optional for the callers that require it
    spread: float = 1.0

    def __init__(self, in_size: int, out_size: int, bias: bool = True, *, key_bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_size, in_size))
        biases = out_size if key_bias else out_size // 3 * 2
        self.register_parameter("bias", nn.Parameter(torch.empty(biases)) if bias else None)

    @property
    def whole_bias(self) -> Tensor | None:
        """The bias of every output, 0 for keys without one: [out_size], or None."""
        if self.bias is None or len(self.bias) == len(self.weight):
            return self.bias
        of_queries, of_values = self.bias.chunk(2)
        return torch.cat([of_queries, torch.zeros_like(of_queries), of_values])

    def forward(self, x: Tensor) -> Tensor:
        """x: float [..., in_size]. Returns float [..., out_size]."""
        bias = self.whole_bias
        return F.linear(x, self.weight.to(x.dtype), None if bias is None else bias.to(x.dtype))

    def extra_repr(self) -> str:
        """Sizes, for repr."""
        return f"{self.weight.shape[1]} -> {self.weight.shape[0]}"


class LayerNorm(nn.Module):
    """z = (x - mean) / sqrt(var + eps) * weight + bias over each vector (Ba et al. 2016, equation 4).

    Mean and variance are per token vector, never over the batch; the kernel accumulates in float32 for every dtype of
    x. weight, bias: [size]; bias may be None.
    """

    def __init__(self, size: int, eps: float, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))
        self.bias = nn.Parameter(torch.empty(size)) if bias else None
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """x: float [..., size]. Returns the same shape and dtype."""
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.layer_norm(x, self.weight.shape, self.weight.to(x.dtype), bias, self.eps)

    def extra_repr(self) -> str:
        """Size and eps, for repr."""
        return f"{self.weight.shape[0]}, eps={self.eps}"


class RMSNorm(LayerNorm):
    """z = x / sqrt(mean(x^2) + eps) * weight over each vector (Zhang and Sennrich 2019, equation 4)."""

    def __init__(self, size: int, eps: float, bias: bool = False) -> None:
        super().__init__(size, eps, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x: float [..., size]. Returns the same shape and dtype; half precision is normalized in float32."""
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


def add_and_norm(hidden: Tensor, added: Tensor, norm: LayerNorm, probability: float, training: bool) -> Tensor:
    """Returns norm(hidden + dropout(added)). All float [tokens, size]. probability: of dropout in `training`."""
    bias, hooks = norm.bias, (norm._forward_hooks, norm._forward_pre_hooks, norm._backward_hooks)
    fits = hidden.dim() == 2 and hidden.shape == added.shape and hidden.shape[1] % training_kernels.MULTIPLE == 0
    fits = fits and type(norm) is LayerNorm and not any(hooks)
    if training and fits and bias is not None and training_kernels.fits(hidden, added, norm.weight, bias):
        return training_kernels.add_and_norm(hidden, added, norm.weight, bias, norm.eps, probability)
    result: Tensor = norm(hidden + dropout(added, probability, training))
    return result


NORMS: dict[str, type[LayerNorm]] = {"layer": LayerNorm, "rms": RMSNorm}

# -- Dropout from torch's default generator, optimized for CPUs --------------------------------------------------------
#
# training.cpp computes it in float32 where it can. torch's own CPU kernel draws one random number per element. Here 64
# random bits serve four elements, and dropping an element clears all its bits: integer operations that vectorize,
# unlike booleans mixed with bfloat16. Timings are in docs/explanation/decisions/packed-batches.md. 15 bits round the
# probability to 1/32,768 (0.1 becomes 0.100006); the scale uses the rounded value, so the expectation is exact.


@contextmanager
def preserve_generators(device: torch.device) -> Iterator[None]:
    """Restores the default generators of the CPU and of `device` at the end of the block."""
    cuda = [device] if device.type == "cuda" else []
    on_mps = torch.mps.get_rng_state() if device.type == "mps" else None
    try:
        with torch.random.fork_rng(devices=cuda):
            yield
    finally:
        if on_mps is not None:
            torch.mps.set_rng_state(on_mps)


def seed_generators(seed: int, device: torch.device) -> None:
    """Seeds only the default generators of the CPU and of `device`, as `torch.manual_seed` would."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.default_generators[index].manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


_BITS = 15
_INT64 = torch.iinfo(torch.int64)
_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # by element size in bytes


def dropout(x: Tensor, probability: float, training: bool = True) -> Tensor:
    """Zeros each element with `probability` and scales the others, so that the expectation stays x.

    x: float of any shape [...]; the result has the same. Off if not `training` or if `probability` is 0.
    """
    if not training or probability == 0.0 or x.numel() == 0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, probability)
    if training_kernels.fits(x):
        return training_kernels.dropout(x, probability)
    result: Tensor = _CpuDropout.apply(x, probability)
    return result


class _CpuDropout(Function):
    """Stores two bytes per element for the backward pass."""

    @staticmethod
    def forward(context: Any, x: Tensor, probability: float) -> Tensor:
        """x: any shape [...]; the result has the same."""
        levels = 1 << _BITS
        threshold = min(max(round(probability * levels), 1), levels - 1)
        keep = _keep_mask(x.shape, threshold)
        context.save_for_backward(keep)
        context.scale = levels / (levels - threshold)
        return _clear(x, keep).mul_(context.scale)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Gradients pass where elements were kept; same shape [...]."""
        (keep,) = context.saved_tensors
        return _clear(gradients[0], keep).mul_(context.scale), None


def _keep_mask(shape: torch.Size, threshold: int) -> Tensor:
    """int16 of `shape`: all bits set to keep an element; 0 with probability threshold / 2^15."""
    words = torch.randint(_INT64.min, _INT64.max, (-(-shape.numel() // 4),), dtype=torch.int64)
    draws = words.view(torch.int16)[: shape.numel()].view(shape).bitwise_and_((1 << _BITS) - 1)
    # draw - threshold is negative for the lowest `threshold` draws; the shift spreads its sign over all bits.
    return draws.sub_(threshold).bitwise_right_shift_(_BITS).bitwise_not_()


def _clear(x: Tensor, keep: Tensor) -> Tensor:
    """x where the bits of `keep` are set, else 0. Both have the same shape [...]."""
    integer = _INTEGERS[x.element_size()]
    return (x.view(integer) & keep.to(integer)).view(x.dtype)


# -- Position-wise feed-forward network (Vaswani et al. 2017, equation 2) ----------------------------------------------


def gelu(x: Tensor) -> Tensor:
    """x * Phi(x) with the exact error function (Hendrycks and Gimpel 2016, equation 1). x: any shape [...]."""
    return F.gelu(x)


def gelu_new(x: Tensor) -> Tensor:
    """GELU with the tanh approximation (Hendrycks and Gimpel 2016, section 2). x: any shape [...]."""
    return F.gelu(x, approximate="tanh")


def linear(x: Tensor) -> Tensor:
    """Identity: no activation. x: any shape [...]."""
    return x


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": gelu,
    "gelu_python": gelu,
    "gelu_new": gelu_new,
    "gelu_fast": gelu_new,
    "gelu_pytorch_tanh": gelu_new,
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "linear": linear,
}


class FeedForward(nn.Module):
    """down(act(up(x))): hidden -> intermediate -> hidden. `act` is a name from ACTIVATIONS.

    gated: `up` is twice as wide; the activation of its first half is multiplied by its second (GLU variants, Shazeer
    2020, equation 5). up_bias: whether, with `bias`, `up` has one. inner_dropout: dropout before `down`.
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        act: str,
        *,
        gated: bool = False,
        bias: bool = True,
        up_bias: bool = True,
        inner_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.up = Linear(hidden_size, intermediate_size * (2 if gated else 1), bias and up_bias)
        self.down = Linear(intermediate_size, hidden_size, bias)
        self.act = ACTIVATIONS[act]
        self.gated = gated
        self.inner_dropout = inner_dropout

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden: float [tokens, hidden]. Returns float [tokens, hidden]."""
        inner = self.up(hidden)  # [tokens, intermediate], twice that if gated
        if self.gated:
            first, second = inner.chunk(2, dim=-1)
            inner = self.act(first) * second  # [tokens, intermediate]
        else:
            inner = self.act(inner)
        result: Tensor = self.down(dropout(inner, self.inner_dropout, self.training))
        return result


# -- LoRA: low-rank updates of frozen linear layers (Hu et al. 2021, equation 3) ---------------------------------------


class LowRank(nn.Module):
    """(alpha / rank) B A dropout(x), for the outputs `start` to `start + size` of a linear layer.

    A: [rank, in_size]; B: [size, rank], 0 before training, so that training starts at the base model; scale: alpha /
    rank; dropout_rate: of the input, in training only.
    """

    def __init__(self, in_size: int, start: int, size: int, rank: int, scale: float, dropout_rate: float) -> None:
        super().__init__()
        self.A = nn.Parameter(torch.empty(rank, in_size))
        self.B = nn.Parameter(torch.zeros(size, rank))
        self.start, self.size, self.scale, self.dropout_rate = start, size, scale, dropout_rate

    def initialize(self, source: torch.Generator) -> None:
        """Draws A uniformly, with bound 1 / sqrt(in_size), as the published code does."""
        bound = self.A.shape[1] ** -0.5
        with torch.no_grad():
            self.A.copy_(torch.empty(self.A.shape).uniform_(-bound, bound, generator=source))

    def forward(self, x: Tensor) -> Tensor:
        """x: float [..., in_size]. Returns float [..., size], in the dtype of x."""
        inner = F.linear(dropout(x, self.dropout_rate, self.training), self.A.to(x.dtype))  # [..., rank]
        return F.linear(inner, self.B.to(x.dtype)) * self.scale

    def delta(self) -> Tensor:
        """The change of the weight: float [size, in_size]."""
        return (self.B @ self.A).detach() * self.scale


class LoraLinear(Linear):
    """A linear layer with low-rank updates of its outputs.

    weight, bias: those of `base`, not copied; lora: the updates by name, with disjoint outputs.
    """

    def __init__(self, base: Linear) -> None:
        nn.Module.__init__(self)
        self.weight, self.spread = base.weight, base.spread
        self.register_parameter("bias", base.bias)
        self.lora = nn.ModuleDict()

    @property
    def updates(self) -> list[LowRank]:
        """The low-rank updates."""
        return [self.update(name) for name in self.lora]

    def update(self, name: str) -> LowRank:
        """The low-rank update of this name. Raises KeyError."""
        found = self.lora[name]
        assert isinstance(found, LowRank)
        return found

    def forward(self, x: Tensor) -> Tensor:
        """x: float [..., in_size]. Returns float [..., out_size]."""
        y = super().forward(x)
        for update in self.updates:
            y.narrow(-1, update.start, update.size).add_(update(x))
        return y

    def merged(self) -> Linear:
        """A new linear layer with the sum of the weight and its updates."""
        result = Linear(self.weight.shape[1], self.weight.shape[0], self.bias is not None)
        result.spread = self.spread
        weight = self.weight.detach().clone()
        for update in self.updates:
            weight[update.start : update.start + update.size] += update.delta()
        result.weight = nn.Parameter(weight)
        if self.bias is not None:
            result.bias = nn.Parameter(self.bias.detach().clone())
        return result


class ScalarMix(nn.Module):
    """Scalar mix of layers: gamma * sum over j of softmax(w)_j h_j (Peters et al. 2018, equation 1).

    One weight per layer and one scale, initialized to the mean of the layers. num_layers: number of mixed layers;
    `weights` are the parameters before the softmax, `scale` is gamma.
    """

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(num_layers))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """layers: num_layers tensors, float [tokens, hidden]. Returns float [tokens, hidden]."""
        shares = self.shares().to(layers[0].dtype)
        mixed = torch.stack([share * layer for share, layer in zip(shares, layers, strict=True)]).sum(dim=0)
        return self.scale.to(mixed.dtype) * mixed

    def shares(self) -> Tensor:
        """The normalized layer weights: float [num_layers], summing to 1."""
        return self.weights.softmax(dim=0)
