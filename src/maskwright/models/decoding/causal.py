"""Incremental decoding of causal language models, with or without a key-value cache.

Both ways give the same results. A row that fills its context window continues with the last half of its tokens in a
new window: positions count from the window's first token, as in training. Rows do not affect each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from ...data.batch import Batch
from ...nn.attention import Executor
from ...nn.cache import KeyValueCache
from ..model import Model
from ..transformer import cached_executors, storing_executors
from .rules import Decoder
from .steps import cache_dtype, steps_of

# -- Incremental decoding of recurrent language models: the hidden state is the only context -------------------------
#
# There is no context window, so texts may have any length.


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


SPARE_COLUMNS = 64  # extra cache columns, so that windows rarely have to move


class CausalDecoder:
    """Decodes rows of tokens with a causal language model.

    Args:
        prompts: Ids of each row, at least one; only the last ones that fit the window are used.
        max_new_tokens: Maximum number of steps.
        use_cache: False re-encodes every window at each step, which is slow and gives the same results.
        window: Context length in tokens, None for the model's maximum.
    """

    def __init__(
        self,
        model: Model,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int,
        *,
        use_cache: bool = True,
        window: int | None = None,
    ) -> None:
        self.model, self.config = model, model.config
        self.device = model.word_embeddings.device
        self.room = window or model.config.max_position_embeddings
        self.windows = [list(prompt)[-self.room :] for prompt in prompts]
        self.relatives = model.encoder.relatives
        longest = max(map(len, self.windows))
        capacity = min(longest + max_new_tokens, 2 * self.room + SPARE_COLUMNS)
        self.newest = longest - 1
        self.first = torch.tensor([longest - len(window) for window in self.windows])  # [rows]
        self.ids = torch.zeros(len(prompts), capacity, dtype=torch.int64)
        for row, ids in enumerate(self.windows):
            self.ids[row, longest - len(ids) : longest] = torch.tensor(ids)
        self.cache = self._cache(capacity) if use_cache else None
        self._attending: list[Executor] | None = None
        self._steps = steps_of(model, len(prompts))

    @torch.inference_mode()
    def start(self) -> Tensor:
        """Encodes the prompts: float32 logits [rows, vocab] of the next token."""
        return self._steps.logits(self._read(range(len(self.ids)), self.newest + 1))

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """Appends one token to each row, int64 [rows]: float32 logits [rows, vocab] of the next token."""
        if self.newest + 1 == self.ids.shape[1]:
            self._shift()
        self.newest += 1
        self.ids[:, self.newest] = tokens.cpu()
        self._renew()
        if self.cache is None:
            return self._steps.logits(self._read(range(len(self.ids)), self.newest + 1))
        self.cache.set_column(self.newest)
        positions = (self.newest - self.first).to(self.device)
        dtype = self.model.compute_dtype
        if self._attending is None or self.config.positions == "rotary":  # angles are those of the new positions
            self._attending = cached_executors(self.config, positions, self.cache, dtype, self.relatives)
        return self._steps.logits(self._steps.advance(tokens.to(self.device), positions, (), self._attending))

    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Keeps only `rows`, int64 [kept], in that order; rows may repeat.

        same_texts: each has the prompt of the row it replaces, like beams of one text. Their common prefix is not
        copied.
        """
        rows = rows.cpu()
        ids, first = self.ids[rows], self.first[rows]
        if self.cache is not None:
            is_like = same_texts and torch.equal(first, self.first)
            self.cache.keep(rows, first_difference(ids, self.ids, self.newest + 1) if is_like else 0)
        if len(rows) > 1 and len(self.ids) == 1:
            self._steps = steps_of(self.model, len(rows))
        self.ids, self.first = ids, first

    @torch.inference_mode()
    def join(self, other: CausalDecoder, steps_left: int) -> None:
        """Adds the rows of another decoder after its own. Both have a cache, and have been started.

        other: Of the same model and window; it cannot be used afterwards. steps_left: Maximum number of further steps.
        """
        assert self.cache is not None and other.cache is not None, "decoders with a cache"
        for one in (self, other):
            if int(one.first.min()):
                one._shift()
        newest = max(self.newest, other.newest)
        capacity = max(min(newest + 1 + steps_left, 2 * self.room + SPARE_COLUMNS), newest + 1)
        ids = torch.zeros(len(self.ids) + len(other.ids), capacity, dtype=torch.int64)
        for rows, one in ((slice(len(self.ids)), self), (slice(len(self.ids), None), other)):
            ids[rows, newest - one.newest : newest + 1] = one.ids[:, : one.newest + 1]
        self.first = torch.cat([one.first + (newest - one.newest) for one in (self, other)])
        self.cache.newest, other.cache.newest = self.newest, other.newest
        self.cache.join(other.cache, capacity)
        self.ids, self.newest = ids, newest
        self._attending = None
        self._steps = steps_of(self.model, len(ids))

    # -- private ---------------------------------------------------------------------------------------------------

    def _cache(self, capacity: int) -> KeyValueCache:
        config = self.config
        return KeyValueCache(
            config.num_hidden_layers,
            len(self.ids),
            capacity,
            config.num_attention_heads,
            config.head_dim,
            dtype=cache_dtype(self.model.compute_dtype, self.device),
            device=self.device,
        )

    def _read(self, rows: Sequence[int], stop: int) -> Tensor:
        """Encodes the windows of `rows` up to the column `stop`: their last vectors, float [rows, hidden]."""
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
            self.cache.set_first_columns(self.first)
            lengths = batch.lengths
            where = (
                torch.from_numpy(np.repeat(np.asarray(rows), lengths)).to(self.device),
                torch.cat([torch.arange(first, stop) for first in firsts]).to(self.device),
            )
            attending = storing_executors(self.config, batch, self.cache, where, dtype, self.relatives)
            hidden = self._steps.advance(batch.input_ids, batch.position_ids, batch.runs, attending)
        return hidden[batch.last_tokens]

    def _renew(self) -> None:
        """Starts a new window, with the last half of the tokens, in rows whose window is full."""
        if self.newest < self.room:  # the first column may be a window's
            return
        full = (self.newest - self.first >= self.room).nonzero().flatten().tolist()
        if not full:
            return
        kept = max(self.room // 2, 1)  # the newest token among them
        self.first[full] = self.newest + 1 - kept
        if self.cache is not None and kept > 1:
            self._read(full, self.newest)
        elif self.cache is not None:
            self.cache.set_first_columns(self.first)

    def _shift(self) -> None:
        """Frees columns on the right by dropping those before the first window."""
        begin = int(self.first.min())
        self.ids[:, : self.ids.shape[1] - begin] = self.ids[:, begin:].clone()
        self.first = self.first - begin
        self.newest -= begin
        if self.cache is not None:
            self.cache.newest = self.newest + begin
            self.cache.shift(begin)


def first_difference(one: Tensor, other: Tensor, stop: int) -> int:
    """The first column before `stop` in which any row differs. Both int64 [rows, columns]."""
    differs = (one[:, :stop] != other[:, :stop]).any(dim=0)
    return int(differs.int().argmax()) if bool(differs.any()) else stop


# -- Selects the decoder for a model: with a key-value cache, or recurrent -------------------------------------------


@runtime_checkable
class HasDecoder(Protocol):
    """A model that brings its own decoder, such as an exported graph."""

    def own_decoder(self, prompts: Sequence[Sequence[int]], window: int | None) -> Decoder:
        """prompts: ids of each row; window: context length in tokens, None for the model's maximum."""


def decoder_of(
    model: Model,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    *,
    use_cache: bool = True,
    window: int | None = None,
) -> Decoder:
    """prompts: ids of each row, at least one; see the decoders for the others. Recurrent decoders have no window."""
    if isinstance(model, HasDecoder):
        return model.own_decoder(prompts, window)
    if model.config.recurrent is not None:
        return RecurrentDecoder(model, prompts, use_cache=use_cache)
    return CausalDecoder(model, prompts, max_new_tokens, use_cache=use_cache, window=window)
