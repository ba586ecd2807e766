"""Distillation of sentence embeddings: the mean of the student's hidden states learns the teacher's direction.

The teacher's embeddings are computed in advance, so a training step costs no teacher. Masked language modeling on half
of the texts is a second, smaller loss: the student also fills masks, and half of its inputs contain no mask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.errors import InputError
from ..core.randomness import derive_seed, generator
from ..data.batch import Batch
from ..data.deal import Deal
from ..data.token_batches import TokenBatches
from ..models.config import ModelConfig
from ..models.initialization import initialize
from ..models.model import Model
from ..models.pooling import pool
from .audit import AuditedSequence, audit
from .base import Objective
from .masking import MaskedRecipe
from .outcome import LossSums
from .segments import Example

HELD_OUT_TEXTS = 1024
PAIR = 2  # sentences of a document that becomes a pair


class Embeddings(Protocol):
    """The teacher's embeddings of the documents of a corpus."""

    def rows(self, documents: Sequence[int]) -> np.ndarray:
        """Float32 [documents, size]."""


class ProjectedStudent(nn.Module):
    """A student with a linear projection to the width of the teacher's embeddings, used only in training."""

    def __init__(self, model: Model, size: int) -> None:
        super().__init__()
        self.model = model
        self.projection = nn.Linear(model.config.hidden_size, size)


def embedding_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Sum over texts of 1 - cosine similarity, a scalar. Both float [texts, size]."""
    return (1 - F.cosine_similarity(student.float(), teacher.float(), dim=-1)).sum()


class EmbeddingDistillation(Objective):
    """Match the teacher's embedding of each document, and predict masked tokens in half of them.

    embeddings: the teacher's, by the folder of the token shards; size: their dimension; weights: of the parts
    "embedding" and "mlm" (0: no masking); student: the initial model; batch_tokens: maximum tokens of a micro-batch (a
    longer text is a batch by itself). A document of two sentences is a pair, [CLS] A [SEP] B [SEP]; any other is a
    single segment.
    """

    name: ClassVar[str] = "embedding"
    head: ClassVar[str] = "mlm"
    parts: ClassVar[tuple[str, ...]] = ("embedding", "mlm")
    words: ClassVar[str] = "mlm"
    roles: ClassVar[tuple[str, ...]] = ("cls", "sep", "mask")
    recipe: MaskedRecipe

    def __init__(
        self,
        recipe: MaskedRecipe,
        embeddings: Mapping[Path, Embeddings],
        size: int,
        weights: dict[str, float],
        student: Model,
        batch_tokens: int,
    ) -> None:
        super().__init__(recipe)
        self.embeddings, self.size, self.weights = embeddings, size, weights
        self.student, self.batch_tokens = student, batch_tokens

    # -- what is trained -------------------------------------------------------------------------------------------

    def network(self, config: ModelConfig, seed: int) -> nn.Module:
        """The initial student, with a projection if the teacher's embeddings have another width."""
        model = Model(config, self.head)
        model.load_state_dict(self.student.state_dict())
        if config.hidden_size == self.size:
            return model
        projected = ProjectedStudent(model, self.size)
        initialize(projected.projection, config.initializer_range, derive_seed(seed, "projection"))
        return projected

    def final_model(self, model: nn.Module) -> Model:
        """The student without the projection."""
        return super().final_model(model.model if isinstance(model, ProjectedStudent) else model)

    # -- examples --------------------------------------------------------------------------------------------------

    def batches(
        self, documents: Any, chosen: np.ndarray, *, seed: int, sequences: int, accumulation: int = 1
    ) -> TextBatches:
        """The endless batches of training: texts of similar length, `batch_tokens` each."""
        return TextBatches(self, documents, chosen, seed, accumulation)

    def held_out(self, documents: Any, chosen: np.ndarray, *, seed: int, sequences: int, most: int) -> list[Batch]:
        """The same batches of held-out text every time, `HELD_OUT_TEXTS` documents at most."""
        rows = generator(seed, "held-out rows").permutation(chosen)[:HELD_OUT_TEXTS]
        order = TokenBatches(self.lengths(documents, rows), self.batch_tokens, seed)
        return [
            self.batch_of(documents, rows[order.rows(0, number)], generator(seed, "held-out masks", number))
            for number in range(len(order))
        ]

    def lengths(self, documents: Any, chosen: np.ndarray) -> np.ndarray:
        """Approximate lengths in tokens, with special tokens (a pair has one more): int64 [texts]."""
        found: np.ndarray = np.minimum(documents.document_lengths()[chosen] + self.num_special, self.recipe.max_length)
        return found

    def batch_of(self, documents: Any, rows: np.ndarray, rng: np.random.Generator) -> Batch:
        """The batch of whole documents. rows: int64 [texts]."""
        return self.batch(documents, [self._example(documents, int(row)) for row in rows], rng)

    def batch(self, documents: Any, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Packs examples, shortest first, and masks half of them. Labels: "embedding", "mlm_positions" and "mlm"."""
        batch, order = self._pack(documents, examples)
        embeddings = self.embeddings[documents.folder].rows([examples[index].a_document for index in order])
        batch = batch.with_labels(embedding=torch.from_numpy(embeddings))
        return self._masked(batch, rng) if self.weights["mlm"] else batch

    def _example(self, documents: Any, row: int) -> Example:
        """A document as an example, truncated to max_length; of a pair the longer segment is truncated."""
        sizes = documents.sentence_lengths_of(row).tolist()
        if len(sizes) != PAIR:
            return Example(row, 0, min(sum(sizes), self.max_tokens))
        a, b = sizes
        room = self.max_tokens - 1  # a pair has one more special token
        a_size = min(a, max(room - b, room // 2))
        b_size = min(b, room - a_size)
        return Example(row, 0, a_size, row, a, a + b_size)

    def _masked(self, batch: Batch, rng: np.random.Generator) -> Batch:
        """The batch with masks in half of its texts (a single text is masked)."""
        lengths = np.asarray(batch.lengths)
        is_masked = np.zeros(len(lengths), dtype=bool)
        is_masked[rng.permutation(len(lengths))[: max(len(lengths) // 2, 1)]] = True
        places = np.flatnonzero(np.repeat(is_masked, lengths))  # tokens of the masked texts
        ids = batch.input_ids.numpy().copy()
        masked = self.recipe.masker(ids[places], lengths[is_masked], rng)
        ids[places] = masked.input_ids
        labels = {"mlm_positions": torch.from_numpy(places[masked.positions]), "mlm": torch.from_numpy(masked.labels)}
        return replace(batch, input_ids=torch.from_numpy(ids)).with_labels(**labels)

    def shown(self, model: nn.Module, batch: Batch, token_of: Callable[[int], str]) -> list[AuditedSequence]:
        """The texts, with the change of each token."""
        return audit(batch, token_of, self.recipe.masker.mask_id)

    # -- the loss --------------------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> dict[str, int]:
        """Texts, and masked tokens."""
        counts = {"embedding": batch.num_sequences}
        return counts | {"mlm": len(batch.labels["mlm"])} if self.weights["mlm"] else counts

    def outcome(self, model: nn.Module, batch: Batch) -> LossSums:
        """Losses of the student on a batch, and its correct predictions of masked tokens."""
        network = self.final_model(model)
        hidden = network.encode(batch).hidden  # [tokens, hidden]
        pooled = pool(hidden.float(), batch, "mean")  # [texts, hidden]
        if isinstance(model, ProjectedStudent):
            pooled = model.projection(pooled)  # [texts, size]
        losses = {"embedding": embedding_loss(pooled, batch.labels["embedding"])}
        correct = {}
        if self.weights["mlm"]:
            losses["mlm"], correct["mlm"] = network.mlm_loss(hidden[batch.labels["mlm_positions"]], batch.labels["mlm"])
        return LossSums(losses, self.counts(batch), correct, self.weights)


class TextBatches:
    """Documents in batches of similar length. The batch of a step depends only on the seed and the step."""

    def __init__(
        self, objective: EmbeddingDistillation, documents: Any, chosen: np.ndarray, seed: int, accumulation: int
    ) -> None:
        self.objective, self.documents, self.chosen = objective, documents, chosen
        self.seed, self.accumulation = seed, accumulation
        self.order = TokenBatches(objective.lengths(documents, chosen), objective.batch_tokens, seed)
        if not len(self.order):
            raise InputError("The corpus contains no training text: pass a text file with at least one line.")

    def batch(self, step: int, number: int) -> Batch:
        """Micro-batch `number` of a step."""
        rows = self.chosen[self._rows(step, number)]
        return self.objective.batch_of(self.documents, rows, generator(self.seed, "masks", step, number))

    def dealt(self, step: int, count: int, deal: Deal) -> list[tuple[int, Batch]]:
        """Those of the `count` micro-batches of a step that `deal` chooses, with their numbers."""
        tokens = [int(self.order.lengths[self._rows(step, number)].sum()) for number in range(count)]
        return [(number, self.batch(step, number)) for number in deal(tokens)]

    def _rows(self, step: int, number: int) -> np.ndarray:
        """Indices into `chosen`: int64 [texts]."""
        return self.order.rows(*divmod(step * self.accumulation + number, len(self.order)))

    def state(self) -> dict[str, int]:
        """Empty: the step determines the batch."""
        return {}

    def restore(self, state: dict[str, int]) -> None:
        """Nothing to restore."""
