"""Denoising (span corruption): an encoder-decoder reconstructs the masked spans of a text.

Raffel et al. 2020, section 3.1.4: the source is [CLS] the [MASK] sat on [MASK] [SEP], the target [MASK] old cat [MASK]
the mat [SEP]. Each span is replaced by one [MASK]; all spans share this sentinel token and are matched by order, so any
tokenizer with [MASK] works.
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
from ..report import MaskExample
from ..text.tokenizers.tokenizer import Tokenizer
from .audit import AuditedSequence, AuditedToken, restored_word_examples
from .base import Objective
from .fitting import GENERATOR_SHARE, TrainedNetwork, TrainedNetworks
from .masked import MaskedRecipe
from .outcome import LossSums
from .segments import Example
from .stream import Tokens

SPAN_TOKENS = 3.0  # mean span length in tokens


class Denoising(Objective):
    """Reconstructs masked spans. Source and target begin and end with the special tokens of a text."""

    name: ClassVar[str] = "denoise"
    head: ClassVar[str] = "seq2seq"
    parts: ClassVar[tuple[str, ...]] = ("denoise",)
    words: ClassVar[str] = "denoise"
    predicts_special: ClassVar[bool] = True
    roles: ClassVar[tuple[str, ...]] = ("bos", "eos", "mask")
    is_seq2seq: ClassVar[bool] = True
    needs: ClassVar[str] = "an encoder-decoder such as transformer-mini or bart-base"
    examples_note: ClassVar[str] = "One masked word per sequence of {where}, generated again."
    recipe: MaskedRecipe

    @classmethod
    def make(cls, config: ModelConfig, generator_share: float = GENERATOR_SHARE) -> nn.Module:
        check(
            config.num_decoder_layers > 0,
            "Objective denoise trains an encoder-decoder: use a preset such as transformer-mini or bart-base.",
        )
        return EncoderDecoder(config, cls.head)

    @classmethod
    def trained_networks(cls, config: ModelConfig, mask_rate: float, generator_share: float) -> TrainedNetworks:
        spans = mask_rate / SPAN_TOKENS
        target = mask_rate + spans
        return (TrainedNetwork(config, words=target, source=1 - mask_rate + spans, target=target),)

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Packs examples with masked spans, shortest first; `target` has the spans, after the start token. Label:
        "denoise", the next token at each of its tokens.
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

    def word_examples(self, model: nn.Module, batch: Batch, tokenizer: Tokenizer) -> list[MaskExample]:
        network, batch = self.final_model(model), batch.to(torch.device("cpu"))
        assert isinstance(network, EncoderDecoder) and batch.target is not None
        written = batch.labels["denoise"].split(batch.target.lengths)
        mark = self.recipe.masker.mask_id
        sources = zip(batch.input_ids.split(batch.lengths), written, strict=True)
        texts = [restore_spans(ids.numpy(), own.numpy()[:-1], mark) for ids, own in sources]
        return restored_word_examples(network, texts, tokenizer, mark)

    def outcome(self, model: nn.Module, batch: Batch) -> LossSums:
        """Loss of every target token with teacher forcing; the score covers only the masked tokens, without sentinels
        and end token.
        """
        network: Any = self.final_model(model)
        vectors = network.decode(batch.target, network.encode(batch).hidden, batch).hidden  # [target tokens, hidden]
        loss, score = self.scorer.loss(network, vectors, batch.labels["denoise"])
        return LossSums({"denoise": loss}, self.counts(batch), scores={"denoise": score})


def hide_spans(tokens: np.ndarray, mark: int, rate: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Replaces spans of a text by one `mark` each; returns it and the spans, each after its mark; int64 [tokens] all.

    About `rate` of the tokens is masked, in non-adjacent spans of SPAN_TOKENS tokens on average: at least one token,
    and all but one at most if there are two.
    """
    count = len(tokens)
    hidden = min(max(int(count * rate + rng.random()), 1), max(count - 1, 1))
    if hidden == count:
        return np.array([mark]), np.concatenate([[mark], tokens])
    spans = min(max(round(hidden / SPAN_TOKENS), 1), count - hidden)
    lengths, gaps = random_partition(hidden, spans, rng), random_partition(count - hidden, spans, rng)
    sign = np.array([mark])
    last = int(rng.integers(gaps[0] + 1))  # part of the first gap that comes after the last span
    seen: list[np.ndarray] = []
    written: list[np.ndarray] = []
    place = 0
    for number, (gap, length) in enumerate(zip(gaps, lengths, strict=True)):
        stop = place + gap - (last if number == 0 else 0)
        seen += [tokens[place:stop], sign]
        written += [sign, tokens[stop : stop + length]]
        place = stop + length
    return np.concatenate([*seen, tokens[place:]]).astype(np.int64), np.concatenate(written).astype(np.int64)


def random_partition(total: int, parts: int, rng: np.random.Generator) -> list[int]:
    """Splits `total` into `parts` positive parts, uniformly at random."""
    cuts = np.sort(rng.choice(total - 1, parts - 1, replace=False)) + 1 if parts > 1 else np.zeros(0, dtype=np.int64)
    sizes: list[int] = np.diff([0, *cuts, total]).tolist()
    return sizes


def spans_of(written: np.ndarray, mark: int) -> list[np.ndarray]:
    """The spans of a target: int64 [tokens] each, without sentinels; tokens before the first sentinel are dropped."""
    starts = np.flatnonzero(written == mark)
    return [part[1:] for part in np.split(written, starts)[1:]]


def restore_spans(seen: np.ndarray, written: np.ndarray, mark: int) -> np.ndarray:
    """Reconstructs the text from source and target: int64 [tokens]. A sentinel without a span stays."""
    spans, parts = iter(spans_of(written, mark)), []
    for index in seen.tolist():
        parts.append(next(spans, np.array([mark])) if index == mark else np.array([index]))
    return np.concatenate(parts) if parts else seen
