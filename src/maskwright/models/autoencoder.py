"""Autoencoder over text embeddings: a high reconstruction error marks an anomaly.

A network with a narrow bottleneck learns what its inputs have in common (Hinton and Salakhutdinov 2006). Trained on one
class only, its squared error is an anomaly score.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..nn.linear import Linear
from .config import ModelConfig

NARROWING = 4  # the bottleneck has a quarter of the hidden size


class AutoencoderHead(nn.Module):
    """hidden -> hidden / 4 -> hidden, on the mean of the token vectors, each dimension scaled to standard deviation 1.

    center, log_scale: [hidden], mean and log standard deviation of the training embeddings; set once by `fit_scale` and
    not trained. The logits are the reconstruction errors.
    """

    needs_pooler = False
    takes_mean = True
    first_kept = False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.center = nn.Parameter(torch.empty(size), requires_grad=False)
        self.log_scale = nn.Parameter(torch.empty(size), requires_grad=False)
        self.down = Linear(size, max(size // NARROWING, 1))
        self.up = Linear(max(size // NARROWING, 1), size)

    def fit_scale(self, vectors: Tensor) -> None:
        """Sets center and scale from training embeddings, float [sequences, hidden]."""
        deviation = vectors.std(dim=0, correction=0)
        # A constant dimension has no information: do not amplify it.
        deviation = torch.where(deviation > 1e-6, deviation, torch.ones_like(deviation))
        with torch.no_grad():
            self.center.copy_(vectors.mean(dim=0))
            self.log_scale.copy_(deviation.log())

    def reconstruct(self, scaled: Tensor) -> Tensor:
        """Encodes and decodes scaled embeddings. scaled: float [sequences, hidden]. Returns the same shape."""
        reconstructed: Tensor = self.up(F.gelu(self.down(scaled)))
        return reconstructed

    def forward(self, vectors: Tensor) -> Tensor:
        """vectors: float [sequences, hidden]. Returns the mean squared error of each, float [sequences, 1]."""
        scaled = (vectors - self.center) * torch.exp(-self.log_scale)
        return (self.reconstruct(scaled) - scaled).square().mean(dim=-1, keepdim=True)
