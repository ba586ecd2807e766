"""Texts that grow under a recurrent network: what it remembers is all it needs, so a step reads one token a row.

There is no window: a text may grow without end, and what was read stays remembered as well as the cells can.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ...data.batch import Batch
from ..model import Model


class RecurrentDecoder:
    """Rows of tokens under a recurrent left-to-right model.

    prompts: ids of each row, at least one. use_cache: False reads every row from its beginning at each step, which is
    slow and the same.
    """

    def __init__(self, model: Model, prompts: Sequence[Sequence[int]], *, use_cache: bool = True) -> None:
        self.model, self.use_cache = model, use_cache
        self.device = model.word_embeddings.device
        self.rows = [np.asarray(prompt, dtype=np.int64) for prompt in prompts]
        self.states: tuple[tuple[Tensor, ...], ...] | None = None

    @torch.inference_mode()
    def start(self) -> Tensor:
        """Read the prompts: float32 logits [rows, vocab] of the token after each."""
        return self._read(self.rows)

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """Read one more token of each row, int64 [rows]: float32 logits [rows, vocab] of the token after it."""
        if self.use_cache:
            return self._read([np.array([token]) for token in tokens.tolist()])
        self.rows = [np.append(row, token) for row, token in zip(self.rows, tokens.tolist(), strict=True)]
        return self._read(self.rows)

    @torch.inference_mode()
    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Go on with `rows`, int64 [kept], in that order; one may come more than once."""
        if not self.use_cache:
            self.rows = [self.rows[row] for row in rows.tolist()]
        elif self.states is not None:
            own = rows.to(self.device)
            self.states = tuple(tuple(part[:, own] for part in layer) for layer in self.states)

    def _read(self, rows: Sequence[np.ndarray]) -> Tensor:
        batch = Batch.from_sequences(rows)
        self.model.check(batch)
        batch = batch.to(self.device)
        encoded = self.model.read_on(batch, self.states)
        if self.use_cache:
            self.states = encoded.states
        return self.model.mlm_logits(encoded.hidden[batch.last_tokens]).float()
