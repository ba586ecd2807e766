"""Masked language modeling (Devlin et al. 2019, section 3.1, task 1): cross-entropy over the masked tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ..data.batch import Batch
from ..models.config import ModelConfig
from ..models.model import Model
from ..report import Command, MaskExample
from ..text.tokenizers.tokenizer import Tokenizer
from .audit import AuditedSequence, audit
from .base import Objective
from .cost import TrainedNetwork
from .masking import MaskedRecipe
from .outcome import LossSums
from .segments import Example
from .stream import Tokens
from .word_examples import masked_word_examples

MASKED_TEXT = "your text with one [MASK] ."  # in suggested commands


class MaskedLanguageModeling(Objective):
    """Predicts the masked tokens of one segment: [CLS] A [SEP]."""

    name: ClassVar[str] = "mlm"
    head: ClassVar[str] = "mlm"
    parts: ClassVar[tuple[str, ...]] = ("mlm",)
    words: ClassVar[str] = "mlm"
    roles: ClassVar[tuple[str, ...]] = ("cls", "sep", "mask")
    needs: ClassVar[str] = "an encoder that sees both sides of a token"
    recipe: MaskedRecipe

    @classmethod
    def fits(cls, network: ModelConfig) -> bool:
        """Returns whether a network sees both sides of a token."""
        return super().fits(network) and not network.pools_last_token

    @classmethod
    def uses(cls, model: Path) -> list[Command]:
        """Returns commands that use the model without fine-tuning."""
        return [Command.suggest("predict masked tokens", "fill-mask", model=model, texts=MASKED_TEXT)]

    @classmethod
    def trained_networks(
        cls, config: ModelConfig, mask_rate: float, generator_share: float
    ) -> tuple[TrainedNetwork, ...]:
        """Returns the network, with predictions for the masked tokens."""
        return (TrainedNetwork(config, words=mask_rate),)

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Packs and masks examples, shortest first. Labels: "mlm_positions", "mlm", and those of whole examples."""
        batch, order = self._pack(documents, examples)
        masked = self.recipe.masker(batch.input_ids.numpy(), np.asarray(batch.lengths), rng)
        labels = {
            "mlm_positions": torch.from_numpy(masked.positions),
            "mlm": torch.from_numpy(masked.labels),
            **self._example_labels([examples[index] for index in order]),
        }
        return Batch(
            torch.from_numpy(masked.input_ids),
            batch.cu_seqlens,
            batch.position_ids,
            batch.token_type_ids,
            labels,
        )

    def shown(self, model: nn.Module, batch: Batch, token_of: Callable[[int], str]) -> list[AuditedSequence]:
        """The examples, with the change of each token."""
        return audit(batch, token_of, self.recipe.masker.mask_id)

    def word_examples(self, model: nn.Module, batch: Batch, tokenizer: Tokenizer) -> list[MaskExample]:
        """Predictions of one masked word in each of some sequences."""
        return masked_word_examples(self.token_predictor(model), batch, tokenizer, self.recipe.masker.mask_id)

    def outcome(self, model: nn.Module, batch: Batch) -> LossSums:
        """Loss and accuracy of a batch; logits are computed at masked positions only."""
        network = self.final_model(model)
        return self.sums(network, network.encode(batch).hidden, batch)

    def sums(self, network: Model, hidden: Tensor, batch: Batch) -> LossSums:
        """The sums of a batch whose hidden states are `hidden`: [tokens, hidden]."""
        loss, score = self.scorer.loss(network, hidden[batch.labels["mlm_positions"]], batch.labels["mlm"])
        return LossSums({"mlm": loss}, self.counts(batch), scores={"mlm": score})

    def _example_labels(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """Labels of whole examples: int64 [sequences] each."""
        return {}
