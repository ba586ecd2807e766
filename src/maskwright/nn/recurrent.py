"""Recurrent layers over packed sequences: each sequence by itself, whatever stands beside it in the pack.

A bidirectional LSTM reads each sequence from both ends (Graves and Schmidhuber 2005); torch does the arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, unpack_sequence


class BiLstm(nn.Module):
    """An LSTM in each direction, the two outputs of a token behind each other.

    input_size: of a token's vector; hidden_size: of each direction; num_layers: one above the other; dropout: between
    them. Parameters are left unfilled: `initialise` fills them.
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        between = dropout if num_layers > 1 else 0.0
        # On "meta" nothing is filled, so building draws nothing from torch's global generator.
        lstm = nn.LSTM(input_size, hidden_size, num_layers, dropout=between, bidirectional=True, device="meta")
        self.lstm: nn.LSTM = lstm.to_empty(device="cpu")
        self.output_size = 2 * hidden_size

    def forward(self, vectors: Tensor, lengths: Sequence[int]) -> Tensor:
        """Read every sequence of a pack.

        vectors: float [tokens, input_size], sequences end to end; lengths: tokens of each, which may be 0. Returns
        float [tokens, 2 * hidden_size].
        """
        parts = [part for part in vectors.split(list(lengths)) if len(part)]
        if not parts:
            return vectors.new_zeros(0, self.output_size)
        outputs, _ = self.lstm(pack_sequence(parts, enforce_sorted=False))
        return torch.cat(unpack_sequence(outputs))  # [tokens, 2 * hidden_size]

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Matrices uniform in +-1/sqrt(hidden_size), biases 0, but 1 for the forget gate, so that a new cell remembers
        (Jozefowicz et al. 2015).
        """
        size = self.lstm.hidden_size
        for name, parameter in self.lstm.named_parameters():
            if parameter.ndim > 1:
                parameter.uniform_(-(size**-0.5), size**-0.5, generator=generator)
                continue
            parameter.zero_()
            if name.startswith("bias_ih"):
                parameter[size : 2 * size] = 1.0  # gates stand in the order input, forget, cell, output
