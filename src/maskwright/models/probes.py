"""Probe: a small token classifier on given vectors, to evaluate frozen features (Devlin et al. 2019, section 5.3).

Its input is word embeddings and sentence lengths from any source: encoder layers, static word embeddings, a recurrent
network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from ..core.randomness import derive_seed
from ..nn.crf import LinearChainCrf
from ..nn.dropout import dropout
from ..nn.linear import Linear
from ..nn.packed_recurrence import pack_whole_texts
from ..nn.recurrent import RecurrentStack

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
