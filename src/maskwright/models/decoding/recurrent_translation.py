"""Incremental decoding of recurrent encoder-decoders; the context is the decoder state and the source."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from ...data.batch import Batch
from ..encoder_decoder import EncoderDecoder
from ..recurrent_target import DecoderState, RecurrentTargetDecoder
from .steps import TargetDecoder


class RecurrentTranslationDecoder(TargetDecoder):
    """Decodes target tokens with a recurrent encoder-decoder; implements `rules.Decoder`.

    Rows of one source are adjacent, with equal numbers per source, and share its
    encoder outputs.
    """

    def __init__(self, model: EncoderDecoder, source: Batch, max_new_tokens: int, *, use_cache: bool = True) -> None:
        super().__init__(model, source, max_new_tokens, use_cache=use_cache)
        self.decoder = cast("RecurrentTargetDecoder", model.decoder)
        self.held = self.owner  # sources in memory, in order

    @torch.inference_mode()
    def start(self) -> Tensor:
        """Encodes the sources: float32 logits [rows, vocab] of the first target token."""
        self.memory = self.model.encode(self.source).hidden
        self.state = self.decoder.initial_state(self.memory, self.source)
        return self.step(torch.full((len(self.source),), self.start_id))

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """Appends one token to each row, int64 [rows]: float32 logits [rows, vocab] of the next token."""
        self.written = torch.cat([self.written, tokens.cpu()[:, None]], dim=1)
        if not self.use_cache:
            return self.model.mlm_logits(self.decode_written()).float()
        hidden, states = self.decoder.grow(tokens.to(self.device), self.state, self.model.compute_dtype)
        self.state = DecoderState(states, self.state.sources)
        return self.model.mlm_logits(hidden).float()

    @torch.inference_mode()
    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Keeps only `rows`, int64 [kept], in that order; rows may repeat.

        same_texts: each has the source of the row it replaces.
        """
        rows = rows.cpu()
        self.written, self.owner = self.written[rows], self.owner[rows]
        chosen = rows.to(self.device)
        states, sources = self.state
        states = tuple(tuple(part[:, chosen] for part in layer) for layer in states)
        if sources is not None and not same_texts:
            texts, counts = torch.unique_consecutive(self.owner, return_counts=True)
            if bool((counts != counts[0]).any()):
                texts = self.owner  # unequal numbers of rows per source: one copy per row
            if not torch.equal(texts, self.held):
                place = {text: number for number, text in enumerate(self.held.tolist())}
                sources = sources.rows(torch.tensor([place[text] for text in texts.tolist()], device=self.device))
                self.held = texts
        self.state = DecoderState(states, sources)
