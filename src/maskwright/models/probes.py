"""Probe: a small token classifier on given vectors, to evaluate frozen features (Devlin et al. 2019, section 5.3).

Its input is word embeddings and sentence lengths from any source: encoder layers, static word embeddings, a recurrent
network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.randomness import derive_seed
from ..nn.crf import LinearChainCrf
from ..nn.layers import Linear, dropout
from ..nn.recurrent import RecurrentStack, pack_whole_texts
from .config import ModelConfig

ProbeKind = Literal["linear", "bilstm"]


class TokenProbe(nn.Module):
    """Token classifier that outputs a score per label and word.

    Args:
        kind: "linear", one linear layer; "bilstm", with `num_layers` BiLSTM layers of `hidden_size` per direction
            before it.
        crf: Add transition scores for decoding label sequences (attribute `crf`, else None).
        dropout_rate: Dropout on the input and on the LSTM output.
        seed: Random seed of the initialization.
    """

    def __init__(
        self,
        input_size: int,
        num_labels: int,
        kind: ProbeKind = "linear",
        *,
        hidden_size: int = 128,
        num_layers: int = 1,
        dropout_rate: float = 0.1,
        crf: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.dropout_rate = dropout_rate
        self.recurrent = (
            RecurrentStack("lstm", input_size, hidden_size, num_layers, reads="both", dropout_rate=dropout_rate)
            if kind == "bilstm"
            else None
        )
        self.classifier = Linear(input_size if self.recurrent is None else self.recurrent.output_size, num_labels)
        self.crf = LinearChainCrf(num_labels) if crf else None
        self._initialize(seed)

    def forward(self, vectors: Tensor, lengths: Sequence[int]) -> Tensor:
        """vectors: float [words, input_size], concatenated sentences; lengths: words of each.

        Returns logits [words, num_labels].
        """
        vectors = dropout(vectors, self.dropout_rate, self.training)
        if self.recurrent is not None:
            read = self.recurrent(vectors, pack_whole_texts(lengths, vectors.device, "lstm"))
            vectors = dropout(read.last, self.dropout_rate, self.training)
        logits: Tensor = self.classifier(vectors)
        return logits

    @property
    def num_parameters(self) -> int:
        """Number of trainable parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    @torch.no_grad()
    def _initialize(self, seed: int) -> None:
        if self.recurrent is not None:
            self.recurrent.initialize(torch.Generator().manual_seed(derive_seed(seed, "weights of the probe's LSTM")))
        bound = self.classifier.weight.shape[1] ** -0.5
        draws = torch.Generator().manual_seed(derive_seed(seed, "weights of the probe's classifier"))
        self.classifier.weight.uniform_(-bound, bound, generator=draws)
        self.classifier.bias.zero_()


# -- Autoencoder over text embeddings: a high reconstruction error marks an anomaly ----------------------------------
#
# A network with a narrow bottleneck learns what its inputs have in common (Hinton and Salakhutdinov 2006). Trained on
# one class only, its squared error is an anomaly score.


NARROWING = 4  # the bottleneck has a quarter of the hidden size


class AutoencoderHead(nn.Module):
    """hidden -> hidden / 4 -> hidden, on the mean of the token vectors, each dimension scaled to standard deviation 1.

    center, log_scale: [hidden], mean and log standard deviation of the training embeddings; set once by `fit_scale` and
    not trained. The logits are the reconstruction errors.
    """

    needs_pooler = False
    takes_mean = True

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
