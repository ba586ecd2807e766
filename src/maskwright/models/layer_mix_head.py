"""Optional layers between an encoder and a task head: a scalar mix of all layers, and BiLSTMs.

They use the layers of a frozen encoder as features of a small network: biLM layers (Peters et al. 2018, equation 1), or
BERT layers (Devlin et al. 2019, section 5.3), optionally concatenated with token embeddings of the network itself ([x;
ELMo] of Peters et al., section 3.3).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..data.batch import Batch
from ..nn.dropout import dropout
from ..nn.embeddings import Table
from ..nn.packed_recurrence import pack_whole_texts
from ..nn.recurrent import RecurrentStack
from ..nn.scalar_mix import ScalarMix
from .config import ModelConfig


class LayerMixHead(nn.Module):
    """Scalar mix (config.mix_layers; else the last layer) followed by config.top_layers BiLSTM layers.

    With config.top_embedding_size the LSTMs also get token embeddings, concatenated after the encoder output.
    hidden_dropout applies to input and output.
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
        read = self.stack(hidden, pack_whole_texts(batch.lengths, hidden.device, "lstm"))
        return dropout(read.last, self.dropout_rate, self.training)

    def mixture(self) -> dict[str, list[float] | float] | None:
        """The learned mix: layer weights `shares`, summing to 1, and `scale`; None without a mix."""
        if self.mix is None:
            return None
        return {"shares": self.mix.shares().tolist(), "scale": self.mix.scale.item()}


def make_layer_mix_head(config: ModelConfig) -> LayerMixHead | None:
    """Builds the layers of a configuration; None if the head uses the encoder's last layer."""
    return LayerMixHead(config) if config.mix_layers or config.top_layers else None
