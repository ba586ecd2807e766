"""Position-wise feed-forward network (Vaswani et al. 2017, equation 2)."""

from __future__ import annotations

from torch import Tensor, nn

from .activations import ACTIVATIONS
from .dropout import dropout
from .linear import Linear


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
