"""Scalar mix of layers (Peters et al. 2018, equation 1): gamma * sum over j of softmax(w)_j h_j."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ScalarMix(nn.Module):
    """One weight per layer and one scale, initialized to the mean of the layers.

    num_layers: number of mixed layers. `weights` are the parameters before the softmax, `scale` is gamma.
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
