"""Texts that a recurrent network writes for others: what its layers remember is all a row needs, beside its source."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from ...data.batch import Batch
from ..encoder_decoder import EncoderDecoder
from ..recurrent_writer import RecurrentWriter, Remembered
from .steps import check_room, read_anew, start_token


class RecurrentTranslatingDecoder:
    """Rows of tokens that a recurrent encoder-decoder writes; the protocol is `rules.Decoder`.

    The arguments are those of `translating.TranslatingDecoder`. Rows that write for one source stand side by side, and
    as many for each; they share what is kept of it.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        source: Batch,
        max_new_tokens: int,
        *,
        use_cache: bool = True,
    ) -> None:
        check_room(model, max_new_tokens)
        self.model, self.use_cache = model, use_cache
        self.writer = cast("RecurrentWriter", model.decoder)
        self.device = model.word_embeddings.device
        self.start_id = start_token(model)
        self.source = source.to(self.device)
        self.owner = torch.arange(len(source))  # the source of each row
        self.held = self.owner  # the sources that are kept, in order
        self.written = torch.zeros(len(source), 0, dtype=torch.int64)

    @torch.inference_mode()
    def start(self) -> Tensor:
        """Read the sources: float32 logits [rows, vocab] of the first token that is written."""
        self.memory = self.model.encode(self.source).hidden
        self.remembered = self.writer.remember(self.memory, self.source)
        return self.step(torch.full((len(self.source),), self.start_id))

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """Read one more token of each row, int64 [rows]: float32 logits [rows, vocab] of the token after it."""
        self.written = torch.cat([self.written, tokens.cpu()[:, None]], dim=1)
        if not self.use_cache:
            hidden = read_anew(self.model, self.written, self.owner, self.memory, self.source)
            return self.model.mlm_logits(hidden).float()
        hidden, states = self.writer.grow(tokens.to(self.device), self.remembered, self.model.compute_dtype)
        self.remembered = Remembered(states, self.remembered.sources)
        return self.model.mlm_logits(hidden).float()

    @torch.inference_mode()
    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Go on with `rows`, int64 [kept], in that order; one may come more than once.

        same_texts: each writes for the source of the row whose place it takes.
        """
        rows = rows.cpu()
        self.written, self.owner = self.written[rows], self.owner[rows]
        chosen = rows.to(self.device)
        states, sources = self.remembered
        states = tuple(tuple(part[:, chosen] for part in layer) for layer in states)
        if sources is not None and not same_texts:
            texts, counts = torch.unique_consecutive(self.owner, return_counts=True)
            if bool((counts != counts[0]).any()):
                texts = self.owner  # there are not as many rows for each text: each row has its own
            if not torch.equal(texts, self.held):
                place = {text: number for number, text in enumerate(self.held.tolist())}
                sources = sources.rows(torch.tensor([place[text] for text in texts.tolist()], device=self.device))
                self.held = texts
        self.remembered = Remembered(states, sources)
