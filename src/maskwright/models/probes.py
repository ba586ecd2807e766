"""A small tagger on given vectors: what a frozen encoder's features are worth (Devlin et al. 2019, section 5.3).

It takes vectors of words and the lengths of their sentences, wherever they come from: an encoder's layers, static word
vectors, a recurrent network.
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
from ..nn.reading import whole_texts
from ..nn.recurrent import RecurrentStack

ProbeKind = Literal["linear", "bilstm"]


class TokenProbe(nn.Module):
    """A score of each label for each word.

    kind: "linear", one linear layer; "bilstm", `num_layers` LSTMs of `hidden_size` in each direction below it; crf:
    scores of neighbouring labels as well, for whoever judges them together (`crf`, None without); dropout_rate: on
    what comes in and what the LSTM gives. Every parameter is drawn from `seed`.
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
        self._initialise(seed)

    def forward(self, vectors: Tensor, lengths: Sequence[int]) -> Tensor:
        """vectors: float [words, input_size], sentences end to end; lengths: words of each.

        Returns logits [words, num_labels].
        """
        vectors = dropout(vectors, self.dropout_rate, self.training)
        if self.recurrent is not None:
            read = self.recurrent(vectors, whole_texts(lengths, vectors.device, "lstm"))
            vectors = dropout(read.last, self.dropout_rate, self.training)
        logits: Tensor = self.classifier(vectors)
        return logits

    @property
    def num_parameters(self) -> int:
        """Numbers that training changes."""
        return sum(parameter.numel() for parameter in self.parameters())

    @torch.no_grad()
    def _initialise(self, seed: int) -> None:
        if self.recurrent is not None:
            self.recurrent.initialise(torch.Generator().manual_seed(derive_seed(seed, "weights of the probe's LSTM")))
        bound = self.classifier.weight.shape[1] ** -0.5
        draws = torch.Generator().manual_seed(derive_seed(seed, "weights of the probe's classifier"))
        self.classifier.weight.uniform_(-bound, bound, generator=draws)
        self.classifier.bias.zero_()
