"""Texts that grow: the logits of each row's next token, with the keys and values of what was read before, or without.

Both ways give the same numbers. A row that fills the model's positions goes on in a new window, the last half of what
it holds: positions count from the window's first token, as they do in training. What a row is beside changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ...data.batch import Batch
from ...nn.attention import Executor
from ...nn.cache import KeyValueCache
from ...nn.linear import Linear
from ...nn.operators import PackedWeight
from ..attending import looking_back, remembering
from ..model import Model
from ..pretraining_heads import MaskedLanguageModelHead

SPARE_COLUMNS = 64  # of the cache beyond what is asked for, so that windows seldom have to move


class CausalDecoder:
    """Rows of tokens under a left-to-right model.

    prompts: ids of each row, at least one; of more than the model's positions the last ones count. max_new_tokens: how
    many steps there may be. use_cache: False encodes every window anew at each step, which is slow and the same.
    """

    def __init__(
        self, model: Model, prompts: Sequence[Sequence[int]], max_new_tokens: int, *, use_cache: bool = True
    ) -> None:
        self.model, self.config = model, model.config
        self.device = model.word_embeddings.device
        self.room = model.config.max_position_embeddings
        self.windows = [list(prompt)[-self.room :] for prompt in prompts]
        self.relatives = model.encoder.relatives
        longest = max(map(len, self.windows))
        capacity = min(longest + max_new_tokens, 2 * self.room + SPARE_COLUMNS)
        self.newest = longest - 1
        self.first = torch.tensor([longest - len(window) for window in self.windows])  # [rows]
        self.ids = torch.zeros(len(prompts), capacity, dtype=torch.int64)
        for row, window in enumerate(self.windows):
            self.ids[row, longest - len(window) : longest] = torch.tensor(window)
        self.cache = self._cache(capacity) if use_cache else None
        self._attending: list[Executor] | None = None
        self._since = longest  # the column from which rows of the same text may differ

    @torch.inference_mode()
    def start(self) -> Tensor:
        """Read the prompts: float32 logits [rows, vocab] of the token after each."""
        return self._logits(self._read(range(len(self.ids)), self.newest + 1))

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """Read one more token of each row, int64 [rows]: float32 logits [rows, vocab] of the token after it."""
        if self.newest + 1 == self.ids.shape[1]:
            self._shift()
        self.newest += 1
        self.ids[:, self.newest] = tokens.cpu()
        self._renew()
        if self.cache is None:
            return self._logits(self._read(range(len(self.ids)), self.newest + 1))
        self.cache.newest = self.newest
        positions = (self.newest - self.first).to(self.device)
        dtype = self.model.compute_dtype
        if self._attending is None or self.config.positions == "rotary":  # angles are those of the new positions
            self._attending = looking_back(self.config, positions, self.cache, dtype, self.relatives)
        return self._logits(self.model.encoder.advance(tokens.to(self.device), positions, (), self._attending, dtype))

    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Go on with `rows`, int64 [kept], in that order; one may come more than once.

        same_texts: each has the prompt of the row whose place it takes, as beams of one text have.
        """
        rows = rows.cpu()
        self.ids, self.first = self.ids[rows], self.first[rows]
        if self.cache is not None:
            self.cache.keep(rows.to(self.device), self._since if same_texts else 0)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _cache(self, capacity: int) -> KeyValueCache:
        config = self.config
        return KeyValueCache(
            config.num_hidden_layers,
            len(self.ids),
            capacity,
            config.num_attention_heads,
            config.head_dim,
            dtype=self.model.compute_dtype,
            device=self.device,
        )

    def _read(self, rows: Sequence[int], stop: int) -> Tensor:
        """Encode the windows of `rows` up to the column `stop`: their last vectors, float [rows, hidden]."""
        firsts = [int(self.first[row]) for row in rows]
        batch = Batch.from_sequences(
            [self.ids[row, first:stop].numpy() for row, first in zip(rows, firsts, strict=True)]
        )
        self.model.check(batch)
        batch, dtype = batch.to(self.device), self.model.compute_dtype
        if self.cache is None:
            hidden = self.model.encode(batch).hidden
        else:
            self.cache.newest = stop - 1
            self.cache.begin_at(self.first)
            lengths = batch.lengths
            where = (
                torch.from_numpy(np.repeat(np.asarray(rows), lengths)).to(self.device),
                torch.cat([torch.arange(first, stop) for first in firsts]).to(self.device),
            )
            attending = remembering(self.config, batch, self.cache, where, dtype, self.relatives)
            hidden = self.model.encoder.advance(batch.input_ids, batch.position_ids, batch.runs, attending, dtype)
        return hidden[batch.last_tokens]

    def _logits(self, hidden: Tensor) -> Tensor:
        return self.model.mlm_logits(hidden).float()

    def _renew(self) -> None:
        """Give rows whose newest token has no position left a new window: the last half of their tokens."""
        if self.newest < self.room:  # the first column may be a window's
            return
        full = (self.newest - self.first >= self.room).nonzero().flatten().tolist()
        if not full:
            return
        kept = max(self.room // 2, 1)  # the newest token among them
        self.first[full] = self.newest + 1 - kept
        self._since = 0
        if self.cache is not None and kept > 1:
            self._read(full, self.newest)
        elif self.cache is not None:
            self.cache.begin_at(self.first)

    def _shift(self) -> None:
        """Make room at the right: columns in which no window begins any more go."""
        begin = int(self.first.min())
        self.ids[:, : self.ids.shape[1] - begin] = self.ids[:, begin:].clone()
        self.first = self.first - begin
        self.newest -= begin
        self._since = max(self._since - begin, 0)
        if self.cache is not None:
            self.cache.newest = self.newest + begin
            self.cache.shift(begin)


def pack_weights(model: Model) -> None:
    """Lay out the weights of a model for many small products in its compute dtype (nn/operators.py).

    They are copies beside the model's own, and are passed over once training changes those. Weights made under
    inference mode are left alone: nothing would tell that they have changed.
    """
    if any(weight.is_inference() for weight in model.parameters()):
        return
    dtype = model.compute_dtype
    for part in model.modules():
        if isinstance(part, Linear):
            part.packed = PackedWeight(part.weight, part.bias, dtype)
    head = model.head
    if isinstance(head, MaskedLanguageModelHead):
        table = model.scored_words if head.decoder is None else head.decoder
        head.packed = PackedWeight(table, head.bias, dtype)
