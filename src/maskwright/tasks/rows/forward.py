"""The middle one of the three steps of inference: what a model computes for packed sequences.

    prepare   texts -> sequences (`Examples`) and their own counts of truncated and unknown tokens
    compute   sequences -> one tensor for each: `compute` packs those of one call, a server those of several calls
    finish    tensors -> answers

Sequences do not affect each other in a pack, so a sequence gets the same result in any company.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...core.errors import InputError
from ...core.memory import return_free_memory
from ...data.batch import Batch
from .examples import Examples, packed_sequences

if TYPE_CHECKING:
    from ...models.model import Model


PACKS_PER_TRIM = 32  # packs after which free memory goes back to the operating system: about 1% of the time


@dataclass(frozen=True)
class Forward(ABC):
    """What a model computes for a pack of sequences; sequences with equal forwards can share a pack."""

    model: Model

    @abstractmethod
    def __call__(self, batch: Batch) -> Sequence[Tensor]:
        """Returns a tensor for each sequence of the pack, in order, float on the CPU. Called in inference mode."""

    @property
    def device(self) -> torch.device:
        """Where the model computes. Walking all parameters takes too long for a short request; a probe has no table."""
        table = getattr(self.model, "word_embeddings", None)
        return (next(self.model.parameters()) if table is None else table).device


@dataclass(frozen=True)
class SequenceLogits(Forward):
    """Logits of a head with one output for each sequence: float32 [labels]."""

    def __call__(self, batch: Batch) -> Sequence[Tensor]:
        """float32 [labels] for each sequence."""
        return self.model.logits(batch).float().cpu().unbind()


@dataclass(frozen=True)
class TokenLogits(Forward):
    """Logits of a head with one output for each token: float32 [tokens, labels]."""

    def __call__(self, batch: Batch) -> Sequence[Tensor]:
        """float32 [tokens, labels] for each sequence."""
        return self.model.logits(batch).float().cpu().split(batch.lengths)


def compute(forward: Forward, examples: Examples, batch_tokens: int | None = None) -> list[Tensor]:
    """Runs all sequences of `examples`, windows too, in packs of at most `batch_tokens` tokens.

    Returns the output of `forward` for each sequence, in order.
    """
    found: list[Tensor | None] = [None] * len(examples.input_ids)
    packs = 0
    with torch.inference_mode():
        for chosen in examples.groups():
            for indices, batch in packed_sequences(examples, chosen, forward.device, batch_tokens):
                packs += 1
                if packs % PACKS_PER_TRIM == 0:
                    return_free_memory()
                for index, output in zip(indices, forward(batch), strict=True):
                    found[index] = output
    return [output for output in found if output is not None]


def stacked(outputs: Sequence[Tensor]) -> Tensor:
    """Returns equal-sized outputs as rows: float32 [sequences, ...], a normal tensor, usable outside inference mode."""
    return torch.stack(list(outputs)).float()


def finite_only(logits: Tensor) -> Tensor:
    """Returns the logits. Raises InputError if any is not finite."""
    if not bool(torch.isfinite(logits).all()):
        raise InputError(
            "The model's outputs are not finite: its weights are damaged, or they overflow at this precision; try "
            "--precision fp32."
        )
    return logits
