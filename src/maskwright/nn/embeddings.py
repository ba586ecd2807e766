"""The input of BERT: token + position + segment vectors, normed (Devlin et al. 2018, figure 2)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .dropout import dropout
from .linear import LayerNorm


class Table(nn.Module):
    """One learned vector per id. weight: [num_rows, size]; look-ups give row `padding_id` no gradient."""

    def __init__(self, num_rows: int, size: int, padding_id: int | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_rows, size))
        self.padding_id = padding_id

    def forward(self, ids: Tensor) -> Tensor:
        """ids: int64 [tokens]. Returns float [tokens, size]."""
        return F.embedding(ids, self.weight, self.padding_id)

    def extra_repr(self) -> str:
        """Sizes, for print."""
        return f"{self.weight.shape[0]} x {self.weight.shape[1]}"


class Embeddings(nn.Module):
    """Sum of the token's, the position's and the segment's vector, then norm and dropout."""

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        *,
        max_position_embeddings: int,
        type_vocab_size: int,
        layer_norm_eps: float,
        hidden_dropout: float,
        pad_token_id: int | None,
    ) -> None:
        super().__init__()
        self.word = Table(vocab_size, hidden_size, pad_token_id)
        self.position = Table(max_position_embeddings, hidden_size)
        self.token_type = Table(type_vocab_size, hidden_size)
        self.norm = LayerNorm(hidden_size, layer_norm_eps)
        self.hidden_dropout = hidden_dropout

    def forward(
        self, input_ids: Tensor, position_ids: Tensor, token_type_ids: Tensor | None, dtype: torch.dtype
    ) -> Tensor:
        """input_ids, position_ids, token_type_ids: int64 [tokens]; no token types means that all are 0.

        The sum and its norm keep the dtype of the weights; the result is `dtype` [tokens, hidden].
        """
        types = self.token_type.weight[0] if token_type_ids is None else self.token_type(token_type_ids)
        total = self.word(input_ids) + self.position(position_ids) + types  # [tokens, hidden]
        return dropout(self.norm(total).to(dtype), self.hidden_dropout, self.training)
