"""Incremental decoding of recurrent language models: the hidden state is the only context.

There is no context window, so texts may have any length.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ...data.batch import Batch
from ..model import Model


class RecurrentDecoder:
    """Decodes rows of tokens with a recurrent causal language model.

    prompts: ids of each row, at least one. use_cache: False re-reads every row at each step, which is slow and gives
    the same results.
    """

    def __init__(self, model: Model, prompts: Sequence[Sequence[int]], *, use_cache: bool = True) -> None:
        self.model, self.use_cache = model, use_cache
        self.device = model.word_embeddings.device
        self.rows = [np.asarray(prompt, dtype=np.int64) for prompt in prompts]
        self.states: tuple[tuple[Tensor, ...], ...] | None = None

    @torch.inference_mode()
    def start(self) -> Tensor:
        """Reads the prompts: float32 logits [rows, vocab] of the next token."""
        return self._read(self.rows)

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """Appends one token to each row, int64 [rows]: float32 logits [rows, vocab] of the next token."""
        if self.use_cache:
            return self._read([np.array([token]) for token in tokens.tolist()])
        self.rows = [np.append(row, token) for row, token in zip(self.rows, tokens.tolist(), strict=True)]
        return self._read(self.rows)

    @torch.inference_mode()
    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Keeps only `rows`, int64 [kept], in that order; rows may repeat."""
        if not self.use_cache:
            self.rows = [self.rows[row] for row in rows.tolist()]
        elif self.states is not None:
            own = rows.to(self.device)
            self.states = tuple(tuple(part[:, own] for part in layer) for layer in self.states)

    def _read(self, rows: Sequence[np.ndarray]) -> Tensor:
        batch = Batch.from_sequences(rows)
        self.model.check(batch)
        batch = batch.to(self.device)
        encoded = self.model.encode_stateful(batch, self.states)
        if self.use_cache:
            self.states = encoded.states
        return self.model.mlm_logits(encoded.hidden[batch.last_tokens]).float()
