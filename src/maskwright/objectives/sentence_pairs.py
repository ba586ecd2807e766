"""Masked language modeling with a classification of sentence pairs, [CLS] A [SEP] B [SEP].

The total loss is the sum of two means: cross-entropy over the masked tokens, and over the pairs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..data.batch import Batch
from ..models.config import ModelConfig
from ..models.model import Model
from .cost import TrainedNetwork
from .masked import MaskedLanguageModeling
from .outcome import LossSums
from .scores import score_classes
from .segments import Example


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
