"""What may stand between an encoder and a task's head: a learned mix of all its layers, and BiLSTMs over it.

So the layers of a frozen encoder become features of a small network: those of two language models (Peters et al. 2018,
equation 1) or of BERT (Devlin et al. 2019, section 5.3). They may stand beside vectors of the network's own, [x; ELMo]
of Peters et al., section 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..data.batch import Batch
from ..nn.dropout import dropout
from ..nn.embeddings import Table
from ..nn.reading import whole_texts
from ..nn.recurrent import RecurrentStack
from ..nn.scalar_mix import ScalarMix
from .config import ModelConfig


class Top(nn.Module):
    """The mix (config.mix_layers; else the last layer) and the LSTMs (config.top_layers of them, from both ends).

    With config.top_embedding_size the LSTMs read the tokens' own vectors too, behind what the encoder gives.
    hidden_dropout falls on what comes in and on what goes out.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dropout_rate = config.hidden_dropout
        self.mix = ScalarMix(config.num_hidden_layers + 1) if config.mix_layers else None
        size, own = config.hidden_size, config.top_embedding_size
        self.words = Table(config.vocab_size, own) if own else None
        self.stack = (
            RecurrentStack(
                "lstm", size + own, size // 2, config.top_layers, reads="both", dropout_rate=self.dropout_rate
            )
            if config.top_layers
            else None
        )

    def forward(self, layers: Sequence[Tensor], batch: Batch) -> Tensor:
        """layers: float [tokens, hidden], the embeddings first. Returns float [tokens, hidden]."""
        hidden = layers[-1] if self.mix is None else self.mix(layers)
        if self.stack is None:
            return hidden
        if self.words is not None:
            hidden = torch.cat([hidden, self.words(batch.input_ids).to(hidden.dtype)], dim=-1)
        hidden = dropout(hidden, self.dropout_rate, self.training)
        read = self.stack(hidden, whole_texts(batch.lengths, hidden.device, "lstm"))
        return dropout(read.last, self.dropout_rate, self.training)

    def mixture(self) -> dict[str, list[float] | float] | None:
        """What the mix has learnt: `shares` of the layers, summing to 1, and `scale`; None where there is no mix."""
        if self.mix is None:
            return None
        return {"shares": self.mix.shares().tolist(), "scale": self.mix.scale.item()}


def make_top(config: ModelConfig) -> Top | None:
    """The part that a configuration asks for; None for an encoder whose last layer the head reads."""
    return Top(config) if config.mix_layers or config.top_layers else None
