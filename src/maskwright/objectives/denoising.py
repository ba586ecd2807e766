"""Denoising: an encoder-decoder reads a text with spans hidden, and writes what stood there.

Raffel et al. 2020, section 3.1.4: [CLS] the [MASK] sat on [MASK] [SEP] is read, and [MASK] old cat [MASK] the mat [SEP]
is written. A span is one [MASK], however long it is; there is one mark for all of them, and their order tells which is
which, so any tokenizer with [MASK] will do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from ..core.config import check
from ..data.batch import Batch
from ..models.config import ModelConfig
from ..models.encoder_decoder import EncoderDecoder
from .audit import AuditedSequence, AuditedToken
from .outcome import Outcome
from .pretraining import GENERATOR_SHARE, MaskedLanguageModelling, Tokens
from .segments import Example

SPAN_TOKENS = 3.0  # of a span, on average


class Denoising(MaskedLanguageModelling):
    """Write the spans that are hidden in a text. What is read and written is framed by what begins and ends a text."""

    name: ClassVar[str] = "denoise"
    head: ClassVar[str] = "seq2seq"
    parts: ClassVar[tuple[str, ...]] = ("denoise",)
    words: ClassVar[str] = "denoise"
    roles: ClassVar[tuple[str, ...]] = ("bos", "eos", "mask")
    writes: ClassVar[bool] = True

    @classmethod
    def make(cls, config: ModelConfig, generator_share: float = GENERATOR_SHARE) -> nn.Module:
        """An encoder-decoder, its parameters not filled."""
        check(
            config.num_decoder_layers > 0,
            "Objective denoise trains an encoder-decoder: take a preset like transformer-mini or bart-base.",
        )
        return EncoderDecoder(config, cls.head)

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Pack examples, shortest first, with their spans hidden; `target` has what is written, behind the start token.

        Labels: "denoise", the token behind each token of the target, int64 [target tokens].
        """
        mark, rate = self.recipe.masker.mask_id, self.recipe.masker.rate
        begin, end = [self.recipe.cls_id], [self.recipe.sep_id]
        sources, targets = [], []
        for example in examples:
            tokens = documents.document_tokens(example.a_document)[example.a_start : example.a_stop]
            seen, hidden = hide_spans(np.asarray(tokens, dtype=np.int64), mark, rate, rng)
            sources.append(np.concatenate([begin, seen, end]))
            targets.append(np.concatenate([begin, hidden, end]))
        order = np.lexsort(([len(ids) for ids in targets], [len(ids) for ids in sources]))
        labels = {"denoise": torch.from_numpy(np.concatenate([targets[row][1:] for row in order]))}
        batch = Batch.from_sequences([sources[row] for row in order], None, labels)
        return replace(batch, target=Batch.from_sequences([targets[row][:-1] for row in order]))

    def shown(self, model: nn.Module, batch: Batch, token_of: Callable[[int], str]) -> list[AuditedSequence]:
        """What is read; at each [MASK] what is to be written for it."""
        assert batch.target is not None
        mark, found = self.recipe.masker.mask_id, []
        written = batch.labels["denoise"].split(batch.target.lengths)
        for ids, target in zip(batch.input_ids.split(batch.lengths), written, strict=True):
            spans = iter(spans_of(target.numpy()[:-1], mark))
            tokens = []
            for index in ids.tolist():
                if index == mark:
                    right = " ".join(token_of(int(one)) for one in next(spans, ()))
                    tokens.append(AuditedToken(token_of(index), right, "masked", 0))
                else:
                    tokens.append(AuditedToken(token_of(index), token_of(index), "", 0))
            found.append(AuditedSequence(tuple(tokens), None))
        return found

    def outcome(self, model: nn.Module, batch: Batch) -> Outcome:
        """Loss and right answers of a batch: every token of the target from what was read and the right ones before."""
        network: Any = self.kept(model)
        vectors = network.decode(batch.target, network.encode(batch).hidden, batch).hidden  # [target tokens, hidden]
        loss, right = network.mlm_loss(vectors, batch.labels["denoise"])
        return Outcome({"denoise": loss}, self.counts(batch), {"denoise": right})


def hide_spans(tokens: np.ndarray, mark: int, rate: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A text with spans replaced by one `mark` each, and those spans, each behind its mark; int64 [tokens] all.

    About `rate` of the tokens is hidden, in spans of SPAN_TOKENS on average that do not touch; at least one token is,
    and at least one stays where there are two.
    """
    count = len(tokens)
    hidden = min(max(int(count * rate + rng.random()), 1), max(count - 1, 1))
    if hidden == count:
        return np.array([mark]), np.concatenate([[mark], tokens])
    spans = min(max(round(hidden / SPAN_TOKENS), 1), count - hidden)
    lengths, gaps = parted(hidden, spans, rng), parted(count - hidden, spans, rng)
    sign = np.array([mark])
    last = int(rng.integers(gaps[0] + 1))  # of the first gap, what stands behind the last span
    seen: list[np.ndarray] = []
    written: list[np.ndarray] = []
    place = 0
    for number, (gap, length) in enumerate(zip(gaps, lengths, strict=True)):
        stop = place + gap - (last if number == 0 else 0)
        seen += [tokens[place:stop], sign]
        written += [sign, tokens[stop : stop + length]]
        place = stop + length
    return np.concatenate([*seen, tokens[place:]]).astype(np.int64), np.concatenate(written).astype(np.int64)


def parted(total: int, parts: int, rng: np.random.Generator) -> list[int]:
    """`total` in so many parts, none of them 0, every way as likely as any other."""
    cuts = np.sort(rng.choice(total - 1, parts - 1, replace=False)) + 1 if parts > 1 else np.zeros(0, dtype=np.int64)
    return np.diff([0, *cuts, total]).tolist()


def spans_of(written: np.ndarray, mark: int) -> list[np.ndarray]:
    """The spans of what was written: int64 [tokens] each, without their marks; what stands before the first is left."""
    starts = np.flatnonzero(written == mark)
    return [part[1:] for part in np.split(written, starts)[1:]]


def restored(seen: np.ndarray, written: np.ndarray, mark: int) -> np.ndarray:
    """The text again, of what was read and what was written for it: int64 [tokens]. A mark that nothing was written for
    stays.
    """
    spans, parts = iter(spans_of(written, mark)), []
    for index in seen.tolist():
        parts.append(next(spans, np.array([mark])) if index == mark else np.array([index]))
    return np.concatenate(parts) if parts else seen
