"""Incremental decoding of causal language models, with or without a key-value cache, and several texts together.

All ways give the same results. A row that fills its context window continues with the last half of its tokens in a new
window: positions count from the window's first token, as in training. Rows do not affect each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from ...data.batch import Batch
from ...nn.attention import Executor, Run
from ...nn.cache import KeyValueCache
from ...nn.cross import CrossAttentionCache
from ..model import DecodingSteps, Model
from ..transformer import cached_executors, storing_executors
from .rules import Decoder

if TYPE_CHECKING:
    from ..encoder_decoder import EncoderDecoder


class ModuleSteps:
    """Decoding steps with the modules of the model."""

    def __init__(self, model: Model) -> None:
        self.model, self.dtype = model, model.compute_dtype

    def advance(
        self, input_ids: Tensor, position_ids: Tensor, runs: Sequence[Run], attending: Sequence[Executor]
    ) -> Tensor:
        """Returns float [new tokens, hidden]; see DecodingSteps."""
        return self.model.encoder.advance(input_ids, position_ids, runs, attending, self.dtype)

    def grow(
        self, tokens: Tensor, positions: Tensor, attending: Sequence[Executor], memory: CrossAttentionCache
    ) -> Tensor:
        """Returns float [new tokens, hidden]; see DecodingSteps."""
        grown: Tensor = cast("EncoderDecoder", self.model).decoder.grow(
            tokens, positions, attending, memory, self.dtype
        )
        return grown

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns float [rows, vocab]; see DecodingSteps."""
        return self.model.mlm_logits(hidden).float()


def steps_of(model: Model, num_rows: int) -> DecodingSteps:
    """Returns the decoding steps of the model's engine if it has one, else of its modules. num_rows: parallel rows.

    A single row uses a different weight layout than several.
    """
    made = None if model.engine is None or model.training else model.engine.steps(model, num_rows)
    return ModuleSteps(model) if made is None else made


def cache_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """The dtype of cached keys and values. On a CPU it is float32 for half precision: attention of a single query takes
    four times as long in bfloat16.
    """
    return torch.float32 if device.type == "cpu" and dtype in (torch.bfloat16, torch.float16) else dtype


# -- Incremental decoding of recurrent language models: the hidden state is the only context -------------------------
#
# There is no context window, so texts may have any length.


class RecurrentDecoder:
    """Decodes rows of tokens with a recurrent causal language model. prompts: ids of each row, at least one."""

    def __init__(self, model: Model, prompts: Sequence[Sequence[int]]) -> None:
        self.model = model
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
        return self._read([np.array([token]) for token in tokens.tolist()])

    @torch.inference_mode()
    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Keeps only `rows`, int64 [kept], in that order; rows may repeat."""
        assert self.states is not None, "it has been started"
        own = rows.to(self.device)
        self.states = tuple(tuple(part[:, own] for part in layer) for layer in self.states)

    def _read(self, rows: Sequence[np.ndarray]) -> Tensor:
        batch = Batch.from_sequences(rows)
        self.model.check(batch)
        batch = batch.to(self.device)
        encoded = self.model.encode_stateful(batch, self.states)
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
        self.relatives = model.encoder.relatives(model.compute_dtype)
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
        return RecurrentDecoder(model, prompts)
    return CausalDecoder(model, prompts, max_new_tokens, use_cache=use_cache, window=window)


# -- Continuous batching (Yu et al. 2022, Orca): texts that are generated at the same time share each step ------------
#
# A text joins when its prompt has been read and leaves when it ends, so none waits for another. Each text is the one
# that its decoder alone would give, up to rounding.


class StepBatch:
    """Decoders of one model whose steps are computed together.

    Between two steps of one of them, each other must have announced its next tokens, or have been removed; so whoever
    drives them gives each a turn.
    """

    def __init__(self) -> None:
        self._decoder: CausalDecoder | None = None  # with the rows of all that have joined
        self._members: list[SharedDecoder] = []  # in the order of their rows, then those that will join

    def add(self, decoder: CausalDecoder, max_new_tokens: int) -> SharedDecoder:
        """Returns a decoder for the rows of `decoder`, which was not started yet. It joins with its second token."""
        return SharedDecoder(self, decoder, max_new_tokens)

    def expect(self, member: SharedDecoder) -> None:
        """Computes the steps of a decoder with the others from now on."""
        if member not in self._members:
            self._members.append(member)

    def remove(self, member: SharedDecoder) -> None:
        """Ends the steps of a decoder."""
        if member in self._members:
            self._members.remove(member)
        if not self._members:
            self._decoder = None

    def compute(self) -> None:
        """Computes one step of all decoders. All get the error if it fails: the cache may be damaged."""
        members = self._members
        try:
            decoder = self._gathered()
            logits = decoder.step(torch.cat([member.announced() for member in members]))
        except Exception as error:
            self._members, self._decoder = [], None
            for member in members:
                member.error = error
            return
        start = 0
        for member in members:
            stop = start + len(member.rows)
            member.rows = list(range(start, stop))
            member.logits = logits[start:stop]
            start = stop

    def _gathered(self) -> CausalDecoder:
        """Returns one decoder with the rows of all members, in their order."""
        rows = [row for member in self._members if member.own is None for row in member.rows]
        whole = self._decoder if rows else None
        if whole is not None and rows != list(range(len(whole.ids))):
            whole.keep(torch.tensor(rows, dtype=torch.int64))
        steps = max(member.steps_left for member in self._members)
        for member in self._members:
            own, member.own = member.own, None
            if own is None:
                continue
            if whole is None:
                whole = own
            else:
                whole.join(own, steps)
        assert whole is not None, "some member joins first"
        self._decoder = whole
        return whole


class SharedDecoder:
    """The rows of one text, or of several, in a StepBatch.

    Attributes:
        own: Its decoder until it joins, then None.
        rows: Rows of the batch, or of `own`.
        steps_left: Steps that it may still need.
        logits: Of its step if they were computed and not read: float32 [rows, vocab].
        error: Why its step could not be computed.
    """

    def __init__(self, batch: StepBatch, decoder: CausalDecoder, max_new_tokens: int) -> None:
        self.own: CausalDecoder | None = decoder
        self.rows = list(range(len(decoder.ids)))
        self.steps_left = max_new_tokens
        self.logits: Tensor | None = None
        self.error: Exception | None = None
        self._batch, self._tokens = batch, None  # type: StepBatch, Tensor | None

    def start(self) -> Tensor:
        """Reads the prompts: float32 logits [rows, vocab] of the first new token."""
        assert self.own is not None, "it starts before it joins"
        return self.own.start()

    def announce(self, tokens: Tensor) -> None:
        """Says with which tokens, int64 [rows], the next step will be asked for."""
        if self.error is not None:
            raise self.error
        self._tokens = tokens
        self._batch.expect(self)

    def announced(self) -> Tensor:
        """The announced tokens: int64 [rows]."""
        tokens, self._tokens = self._tokens, None
        if tokens is None:
            raise RuntimeError("A step was computed before each decoder had its turn.")
        self.steps_left -= 1
        return tokens

    def step(self, tokens: Tensor) -> Tensor:
        """Returns logits of the next token, float32 [rows, vocab], after the announced `tokens`."""
        if self.logits is None and self.error is None:
            self._batch.compute()
        logits, self.logits = self.logits, None
        if logits is None:
            assert self.error is not None, "a member of the batch"
            raise self.error
        return logits

    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Keeps only `rows`, int64 [kept], in that order; rows may repeat. same_texts: as of the decoder."""
        if self.own is not None:
            self.own.keep(rows, same_texts=same_texts)
            self.rows = list(range(len(rows)))
        else:
            self.rows = [self.rows[row] for row in rows.tolist()]

    def close(self) -> None:
        """Leaves the batch."""
        self._batch.remove(self)
