"""An autoencoder over the vectors of whole texts: what it cannot give back is unlike what it has learnt.

Hinton and Salakhutdinov 2006: a network that must pass its input through a narrow layer learns what its inputs have in
common. Trained on one class alone, its squared error is the score of being of another.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..nn.linear import Linear
from .config import ModelConfig

NARROWING = 4  # the narrow layer has a quarter of the width


class AutoencoderHead(nn.Module):
    """hidden -> hidden / 4 -> hidden, on the mean of a text's token vectors, each number scaled to spread 1.

    center, log_scale: [hidden], mean and logarithm of the deviation of the vectors that it learns from; they are set
    once (`fit_scale`) and do not train. Its logits are its errors.
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
        """Take center and scale from vectors to learn from, float [sequences, hidden]."""
        deviation = vectors.std(dim=0, correction=0)
        # A number that never changes says nothing: it is not blown up.
        deviation = torch.where(deviation > 1e-6, deviation, torch.ones_like(deviation))
        with torch.no_grad():
            self.center.copy_(vectors.mean(dim=0))
            self.log_scale.copy_(deviation.log())

    def reconstruct(self, scaled: Tensor) -> Tensor:
        """What passes through the narrow layer. scaled: float [sequences, hidden]. Returns the same shape."""
        given_back: Tensor = self.up(F.gelu(self.down(scaled)))
        return given_back

    def forward(self, vectors: Tensor) -> Tensor:
        """vectors: float [sequences, hidden]. Returns the mean squared error of each, float [sequences, 1]."""
        scaled = (vectors - self.center) * torch.exp(-self.log_scale)
        return (self.reconstruct(scaled) - scaled).square().mean(dim=-1, keepdim=True)
