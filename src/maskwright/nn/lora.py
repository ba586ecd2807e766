"""LoRA: low-rank updates of frozen linear layers (Hu et al. 2021, equation 3)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .dropout import dropout
from .linear import Linear


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
