"""Masked language modeling with a classification of sentence pairs, [CLS] A [SEP] B [SEP].

The total loss is the sum of two means: cross-entropy over the masked tokens, and over the pairs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.errors import InputError
from ..core.progress import note
from ..data.batch import Batch
from ..models.config import ModelConfig
from ..models.model import Model
from .base import Objective
from .fitting import TrainedNetwork
from .masked import MaskedLanguageModeling
from .outcome import LossSums
from .scores import score_classes
from .segments import Example, plan_ordered, plan_pairs


class MaskedLanguageModelingOnPairs(MaskedLanguageModeling):
    """Masked language modeling on pairs, which are classified too. The second of `parts` names that label."""

    head: ClassVar[str] = "pretraining"
    num_special: ClassVar[int] = 3

    @classmethod
    def trained_networks(
        cls, config: ModelConfig, mask_rate: float, generator_share: float
    ) -> tuple[TrainedNetwork, ...]:
        """Returns the network, which classifies every sequence too."""
        networks = super().trained_networks(config, mask_rate, generator_share)
        return tuple(replace(network, classifies_pairs=True) for network in networks)

    @staticmethod
    @abstractmethod
    def pair_label(example: Example) -> bool:
        """Whether a pair is of class 1."""

    def _example_labels(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        return {self.parts[1]: torch.tensor([int(self.pair_label(example)) for example in examples])}

    def sums(self, network: Model, hidden: Tensor, batch: Batch) -> LossSums:
        """The sums of a batch, those of the pairs included. hidden: [tokens, hidden]."""
        sums, part = super().sums(network, hidden, batch), self.parts[1]
        logits, labels = network.nsp_logits(network.pool(hidden, batch)), batch.labels[part]  # [sequences, 2]
        sums.losses[part] = F.cross_entropy(logits.float(), labels, reduction="sum")
        sums.scores[part] = score_classes(logits.detach().argmax(dim=-1), labels)
        return sums


# -- Next sentence prediction (Devlin et al. 2019, section 3.1, task 2): does B follow A? ----------------------------


class MaskedLanguageModelingAndNextSentence(MaskedLanguageModelingOnPairs):
    """Masked language modeling on pairs: B follows A (0), or is from another document (1)."""

    name: ClassVar[str] = "mlm+nsp"
    parts: ClassVar[tuple[str, ...]] = ("mlm", "nsp")
    network_settings: ClassVar[dict[str, Any]] = {"pair_objective": "nsp"}

    def check(self, num_documents: int) -> None:
        """Raises InputError if there is no other document for random pairs."""
        super().check(num_documents)
        if num_documents < 2:
            raise InputError(
                "Next sentence prediction needs at least two documents, but the corpus contains one: separate "
                "documents with a blank line, or train with --objective mlm."
            )

    def for_documents(self, num_documents: int) -> Objective:
        """Returns masked language modeling for one document, which has no random pairs."""
        if num_documents != 1:
            return self
        note("The text is one document, so next sentences are not scored. Separate documents with blank lines.")
        return MaskedLanguageModeling(self.recipe)

    def plan(self, bounds: dict[int, list[int]], rng: np.random.Generator) -> list[Example]:
        """Plans examples of two segments from the sentence bounds of documents."""
        return plan_pairs(bounds, self.max_tokens, self.recipe.short_share, rng)

    @staticmethod
    def pair_label(example: Example) -> bool:
        """Whether B is from another document."""
        return example.is_random


# -- Sentence order prediction (Lan et al. 2020, section 3.1): are two adjacent segments in order? -------------------


class MaskedLanguageModelingAndSentenceOrder(MaskedLanguageModelingOnPairs):
    """Masked language modeling on adjacent segments: in order (0) or swapped (1)."""

    name: ClassVar[str] = "mlm+sop"
    parts: ClassVar[tuple[str, ...]] = ("mlm", "sop")
    network_settings: ClassVar[dict[str, Any]] = {"pair_objective": "sop"}

    def plan(self, bounds: dict[int, list[int]], rng: np.random.Generator) -> list[Example]:
        """Plans examples of two adjacent segments from the sentence bounds of documents."""
        return plan_ordered(bounds, self.max_tokens, self.recipe.short_share, rng)

    @staticmethod
    def pair_label(example: Example) -> bool:
        """Whether the segments are swapped."""
        return example.is_swapped
