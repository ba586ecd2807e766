"""The position-wise feed-forward network, the same on every token (Vaswani et al. 2017, equation 2)."""

from __future__ import annotations

from torch import Tensor, nn

from .activations import ACTIVATIONS
from .linear import Linear


class FeedForward(nn.Module):
    """down(act(up(x))): hidden -> intermediate -> hidden. `act` is a name from ACTIVATIONS."""

    def __init__(self, hidden_size: int, intermediate_size: int, act: str) -> None:
        super().__init__()
        self.up = Linear(hidden_size, intermediate_size)
        self.down = Linear(intermediate_size, hidden_size)
        self.act = ACTIVATIONS[act]

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden: float [tokens, hidden]. Returns float [tokens, hidden]."""
        return self.down(self.act(self.up(hidden)))
