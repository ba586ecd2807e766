"""Position-wise feed-forward network (Vaswani et al. 2017, equation 2)."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .dropout import dropout
from .linear import Linear

# -- Activation functions by the names used in published configurations ----------------------------------------------


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
    2020, equation 5). inner_dropout: dropout before `down`.
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        act: str,
        *,
        gated: bool = False,
        bias: bool = True,
        inner_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.up = Linear(hidden_size, intermediate_size * (2 if gated else 1), bias)
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
