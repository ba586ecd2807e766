"""Sentence embeddings by pooling, which similarity compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ...data.batch import Batch
from ...models.model import Model
from ...models.pooling import join_windows, pool
from ..rows.forward import Forward


@dataclass(frozen=True)
class PooledVectors(Forward):
    """Pooled last hidden states: float32 [size]."""

    def __call__(self, batch: Batch) -> Sequence[Tensor]:
        """float32 [size] for each sequence."""
        return pooled(self.model, batch).cpu().unbind()


def unit(model: Model, batch: Batch) -> Tensor:
    """Unit embeddings of all texts of a batch: float32 [texts, size]."""
    vectors, lengths = pooled(model, batch), torch.tensor(batch.lengths)
    if len(vectors) > len(batch.labels["windows"]):
        order = batch.labels["order"]
        counts = batch.labels["windows"].tolist()
        vectors = join_windows(vectors[order], lengths[order.cpu()], counts, pooling_of(model))
    return F.normalize(vectors, dim=-1)


def pooled(model: Model, batch: Batch) -> Tensor:
    """Pooled last hidden states of the sequences: float32 [sequences, size]."""
    normalize_tokens = model.sentence is not None and model.sentence.normalize_tokens
    return pool(model.encode(batch).hidden.float(), batch, pooling_of(model), normalize_tokens)


def pooling_of(model: Model) -> str:
    """The pooling that a sentence encoder declares; the mean without one."""
    return "mean" if model.sentence is None else model.sentence.pooling
