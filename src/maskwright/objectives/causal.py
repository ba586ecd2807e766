"""Causal language modeling: predict each token from the previous ones (Radford et al. 2018, equation 1).

Labels are all ordinary tokens of [CLS] A [SEP], and [SEP] if the text ends there, but not where an example is
truncated. Nearly every position has a label, compared with 15% in masked language modeling, and generated texts end. A
tokenizer without [CLS] and [SEP], such as GPT-2's, has one token between texts: it comes before the first token of a
text and after its last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ..data.batch import Batch
from ..models.config import ModelConfig
from ..report import Command, MaskExample
from ..text.tokenizers.tokenizer import Tokenizer
from .audit import AuditedSequence, audit
from .base import Objective
from .cost import TrainedNetwork
from .outcome import LossSums
from .segments import Example
from .stream import Tokens
from .word_examples import next_word_examples


class NextTokenPrediction(Objective):
    """Predicts the next token at every token, in a causal network."""

    name: ClassVar[str] = "clm"
    head: ClassVar[str] = "clm"
    parts: ClassVar[tuple[str, ...]] = ("clm",)
    words: ClassVar[str] = "clm"
    predicts_special: ClassVar[bool] = True
    network_settings: ClassVar[dict[str, Any]] = {
        "attention": "causal",
        "full_attention_every": 0,
        "separate_directions": False,
    }
    roles: ClassVar[tuple[str, ...]] = ("bos", "eos")
    examples_title: ClassVar[str] = "Next-token predictions"
    examples_note: ClassVar[str] = "One position per sequence of {where}."

    @classmethod
    def uses(cls, model: Path) -> list[Command]:
        """Returns commands that use the model without fine-tuning."""
        return [Command.suggest("generate text", "generate", model=model, prompts="your text", top_k=40)]

    @classmethod
    def trained_networks(
        cls, config: ModelConfig, mask_rate: float, generator_share: float
    ) -> tuple[TrainedNetwork, ...]:
        """Returns the network, with predictions for all tokens."""
        return (TrainedNetwork(config, words=1.0),)

    @classmethod
    def line_separator(cls, tokenizer: Tokenizer) -> str:
        """Text between the lines of a document, which are encoded together if the tokenizer preserves whitespace."""
        return tokenizer.word_markers.line_separator

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Packs examples, shortest first. Labels: "clm_positions", where a token is predicted, and "clm", its id."""
        batch, order = self._pack(documents, examples)
        is_target = ~torch.from_numpy(self.recipe.is_special)[batch.input_ids]  # [tokens]
        ends_text = torch.tensor([self._ends_text(documents, examples[index]) for index in order.tolist()])
        is_target[batch.last_tokens[ends_text]] = True
        is_target[batch.first_tokens] = False
        targets = is_target.nonzero().squeeze(1)  # [labels]
        return batch.with_labels(clm_positions=targets - 1, clm=batch.input_ids[targets])

    def _row(self, documents: Tokens, example: Example) -> tuple[np.ndarray, np.ndarray]:
        """Ids of a part of a text with its special tokens; all of one segment."""
        if self.recipe.frames:
            return super()._row(documents, example)
        tokens = documents.document_tokens(example.a_document)[example.a_start : example.a_stop]
        before = [self.recipe.cls_id] if example.a_start == 0 else []
        after = [self.recipe.sep_id] if self._ends_text(documents, example) else []
        ids = np.concatenate([before, tokens, after]).astype(np.int64)
        return ids, np.zeros(len(ids), dtype=np.int64)

    @staticmethod
    def _ends_text(documents: Tokens, example: Example) -> bool:
        return example.a_stop == len(documents.document_tokens(example.a_document))

    def shown(self, model: nn.Module, batch: Batch, token_of: Callable[[int], str]) -> list[AuditedSequence]:
        """The text, with its next-token targets marked."""
        inside = predicted_tokens(batch)
        labels = {"mlm_positions": batch.labels["clm_positions"][inside] + 1, "mlm": batch.labels["clm"][inside]}
        return audit(batch.with_labels(**labels), token_of, None, unchanged="next")

    def word_examples(self, model: nn.Module, batch: Batch, tokenizer: Tokenizer) -> list[MaskExample]:
        """Predictions of a word in the second half of each sequence, from its left context."""
        targets = batch.labels["clm_positions"][predicted_tokens(batch)] + 1  # [labels]
        return next_word_examples(self.token_predictor(model), batch, targets, tokenizer)

    def outcome(self, model: nn.Module, batch: Batch) -> LossSums:
        """Loss and accuracy of a batch; logits are computed at labeled positions only."""
        network = self.final_model(model)
        vectors = network.encode(batch).hidden[batch.labels["clm_positions"]]  # [labels, hidden]
        loss, score = self.scorer.loss(network, vectors, batch.labels["clm"])
        return LossSums({"clm": loss}, self.counts(batch), scores={"clm": score})


def predicted_tokens(batch: Batch) -> Tensor:
    """Which target tokens are in the batch itself: bool [labels]. The last target of a stream segment is in the next
    batch.
    """
    last: Tensor = batch.last_tokens[torch.tensor(batch.lengths) > 0]
    return ~torch.isin(batch.labels["clm_positions"], last)
