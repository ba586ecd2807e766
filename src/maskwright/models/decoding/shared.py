"""Continuous batching (Yu et al. 2022, Orca): texts that are generated at the same time share each step.

A text joins when its prompt has been read and leaves when it ends, so none waits for another. Rows do not affect each
other: each text is the one that its decoder alone would give, up to rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .causal import CausalDecoder


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
