"""Entries that break the contract in one way each, to show that it notices."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from maskwright.hub.folders import save_model
from maskwright.models.heads import MaskedLanguageModelHead
from maskwright.models.model import Model
from maskwright.objectives.masked import MaskedLanguageModeling
from maskwright.objectives.outcome import LossSums
from maskwright.tasks.regression import Regression
from maskwright.text.tokenizers.trainers import train_word


class LeakyHead(MaskedLanguageModelHead):
    """Takes the mean over the whole pack away, so a sequence depends on its neighbors."""

    def forward(self, hidden: Tensor, word_embeddings: Tensor) -> Tensor:
        return super().forward(hidden - hidden.mean(0), word_embeddings)


class IdleHead(MaskedLanguageModelHead):
    """Has a parameter that nothing uses and no folder knows."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.idle = nn.Parameter(torch.zeros(3))


class NoisyHead(MaskedLanguageModelHead):
    """Draws a number each time, in use as in training."""

    def forward(self, hidden: Tensor, word_embeddings: Tensor) -> Tensor:
        return super().forward(hidden, word_embeddings) * torch.rand(()).add(0.5)


class CutHead(MaskedLanguageModelHead):
    """Stops the gradient on its way to the encoder."""

    def forward(self, hidden: Tensor, word_embeddings: Tensor) -> Tensor:
        return super().forward(hidden.detach(), word_embeddings)


class UndocumentedHead(MaskedLanguageModelHead):
    __doc__ = None


class MeanTask(Regression):
    """Gives the loop a mean where it adds up sums."""

    def outcome(self, model: Model, batch: Any) -> LossSums:
        found = super().outcome(model, batch)
        return LossSums({part: loss / len(batch) for part, loss in found.losses.items()}, found.counts, found.correct)


class ShortTask(Regression):
    """Loses the last answer."""

    def decode(self, logits: Tensor) -> list[dict[str, Any]]:
        return super().decode(logits)[:-1]


class GlobalDraws(MaskedLanguageModeling):
    """Masks by numpy's global generator."""

    def batch(self, documents: Any, examples: Any, rng: np.random.Generator) -> Any:
        return super().batch(documents, examples, np.random.default_rng())


class WrongSums(MaskedLanguageModeling):
    """Counts a pack twice if it contains more than one sequence."""

    def outcome(self, model: Model, batch: Any) -> LossSums:
        found = super().outcome(model, batch)
        factor = min(len(batch), 2)
        return LossSums({part: loss * factor for part, loss in found.losses.items()}, found.counts, scores=found.scores)


_calls = count()


def train_changing(texts: Any, vocab_size: int, lowercase: bool = True) -> Any:
    """Another vocabulary at every call."""
    return train_word([*texts, f"extra{next(_calls)} " * 9], vocab_size, lowercase=lowercase)


def save_rounded(model: Model, folder: str | Path, *, facts: Any = None, replace: bool = False) -> None:
    """Weights rounded on their way to the disk."""
    with torch.no_grad():
        twin = Model(model.config, model.head_name, labels=model.labels or None, with_pooler=model.has_pooler)
        twin.load_state_dict({name: value.bfloat16().float() for name, value in model.state_dict().items()})
    twin.tokenizer = model.tokenizer
    save_model(twin, folder, facts=facts, replace=replace)
