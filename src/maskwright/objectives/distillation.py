"""Knowledge distillation: a student model learns from a teacher (Hinton et al. 2015; Sanh et al. 2019, section 2).

Three mean losses with the published weights 5, 2 and 1: the teacher's softened distribution, the task itself, and the
direction of the last hidden states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.errors import InputError
from ..core.randomness import derive_seed, generator
from ..data.batch import Batch, Deal, TokenBatches
from ..models.build import initialize
from ..models.config import ModelConfig
from ..models.model import Model
from ..models.pooling import pool
from .audit import AuditedSequence, audit
from .base import Objective
from .masked import MaskedLanguageModeling, MaskedRecipe
from .outcome import LossSums
from .segments import Example


@dataclass(frozen=True)
class DistillationWeights:
    """temperature: divisor of the logits before the softmax; weights of the three losses, 0 to disable one."""

    temperature: float = 2.0
    soft_weight: float = 5.0
    task_weight: float = 2.0
    hidden_weight: float = 1.0

    def weights(self, task: str) -> dict[str, float]:
        """The weight of each loss; `task`: name of the task's own loss."""
        return {"soft": self.soft_weight, "hidden": self.hidden_weight, task: self.task_weight}


def soft_target_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Sum over rows of T^2 KL(softmax(teacher / T) || softmax(student / T)), a scalar (Hinton et al. 2015, section 2).

    student, teacher: float [rows, classes], logits. T^2 keeps the gradient on the scale of hard labels for every T: it
    is T (p_student - p_teacher), which for large T approaches the difference of the centered logits / classes.
    """
    found = F.log_softmax(student.float() / temperature, dim=-1)  # [rows, classes]
    wanted = F.log_softmax(teacher.float() / temperature, dim=-1)
    return temperature**2 * F.kl_div(found, wanted, reduction="sum", log_target=True)


def soft_binary_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """The same for independent binary labels: mean over labels, sum over rows, a scalar.

    student, teacher: float [rows, labels], logits. Cross-entropy minus the teacher's entropy, so it is 0 for equality.
    """
    found, wanted = student.float() / temperature, teacher.float() / temperature  # [rows, labels]
    target = torch.sigmoid(wanted)
    above = F.binary_cross_entropy_with_logits(found, target, reduction="none") - F.binary_cross_entropy_with_logits(
        wanted, target, reduction="none"
    )
    return temperature**2 * above.mean(dim=-1).sum()


def hidden_cosine_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Sum over rows of 1 - cos(student, teacher), a scalar. Both float [tokens, hidden] or [texts, size]."""
    return (1 - F.cosine_similarity(student.float(), teacher.float(), dim=-1)).sum()


class MaskedDistillation(MaskedLanguageModeling):
    """Masked language modeling with a teacher: its output distribution, its last hidden states, and the labels.

    teacher: a masked language model, with the student's hidden size if hidden states are compared; student: the initial
    model, or None.
    """

    name: ClassVar[str] = "distill"
    parts: ClassVar[tuple[str, ...]] = ("mlm", "soft", "hidden")

    def __init__(
        self, recipe: MaskedRecipe, teacher: Model, mix: DistillationWeights, student: Model | None = None
    ) -> None:
        super().__init__(recipe)
        self.teacher, self.mix, self.student = teacher.eval().requires_grad_(False), mix, student

    def network(self, config: ModelConfig, seed: int) -> nn.Module:
        assert self.student is not None and self.student.config == config, "the student was made for another network"
        return self.student

    def counts(self, batch: Batch) -> dict[str, int]:
        labels = len(batch.labels["mlm"])
        counts = {"mlm": labels, "soft": labels}
        return counts | {"hidden": batch.num_tokens} if self.mix.hidden_weight else counts

    def outcome(self, model: nn.Module, batch: Batch) -> LossSums:
        student, positions, right = self.final_model(model), batch.labels["mlm_positions"], batch.labels["mlm"]
        with torch.no_grad():
            wanted_hidden = self.teacher.encode(batch).hidden  # [tokens, hidden]
            wanted = self.teacher.mlm_logits(wanted_hidden[positions])  # [labels, vocab]
        hidden = student.encode(batch).hidden  # [tokens, hidden]
        logits = student.mlm_logits(hidden[positions]).float()  # [labels, vocab]
        losses = {
            "mlm": F.cross_entropy(logits, right, reduction="sum"),
            "soft": soft_target_loss(logits, wanted, self.mix.temperature),
        }
        if self.mix.hidden_weight:
            losses["hidden"] = hidden_cosine_loss(hidden, wanted_hidden)
        scores = {"mlm": self.scorer.score(logits.detach(), right)}
        return LossSums(losses, self.counts(batch), weights=self.mix.weights("mlm"), scores=scores)


# -- Distillation of sentence embeddings: the mean of the student's hidden states learns the teacher's direction -----
#
# The teacher's embeddings are computed in advance, so a training step costs no teacher. Masked language modeling on
# half of the texts is a second, smaller loss: the student also fills masks, and half of its inputs contain no mask.

HELD_OUT_TEXTS = 1024
PAIR = 2  # sentences of a document that becomes a pair


class ProjectedStudent(nn.Module):
    """A student with a linear projection to the width of the teacher's embeddings, used only in training."""

    def __init__(self, model: Model, size: int) -> None:
        super().__init__()
        self.model = model
        self.projection = nn.Linear(model.config.hidden_size, size)


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
        embeddings: Mapping[Path, Any],
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
        model = Model(config, self.head)
        model.load_state_dict(self.student.state_dict())
        if config.hidden_size == self.size:
            return model
        projected = ProjectedStudent(model, self.size)
        initialize(projected.projection, config.initializer_range, derive_seed(seed, "projection"))
        return projected

    def final_model(self, model: nn.Module) -> Model:
        return super().final_model(model.model if isinstance(model, ProjectedStudent) else model)

    # -- examples --------------------------------------------------------------------------------------------------

    def batches(
        self, documents: Any, chosen: np.ndarray, *, seed: int, sequences: int, accumulation: int = 1
    ) -> TextBatches:
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
        return audit(batch, token_of, self.recipe.masker.mask_id)

    # -- the loss --------------------------------------------------------------------------------------------------

    def counts(self, batch: Batch) -> dict[str, int]:
        counts = {"embedding": batch.num_sequences}
        return counts | {"mlm": len(batch.labels["mlm"])} if self.weights["mlm"] else counts

    def outcome(self, model: nn.Module, batch: Batch) -> LossSums:
        network = self.final_model(model)
        hidden = network.encode(batch).hidden  # [tokens, hidden]
        pooled = pool(hidden.float(), batch, "mean")  # [texts, hidden]
        if isinstance(model, ProjectedStudent):
            pooled = model.projection(pooled)  # [texts, size]
        losses = {"embedding": hidden_cosine_loss(pooled, batch.labels["embedding"])}
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
        rows = self.chosen[self._rows(step, number)]
        return self.objective.batch_of(self.documents, rows, generator(self.seed, "masks", step, number))

    def dealt(self, step: int, count: int, deal: Deal) -> list[tuple[int, Batch]]:
        tokens = [int(self.order.lengths[self._rows(step, number)].sum()) for number in range(count)]
        return [(number, self.batch(step, number)) for number in deal(tokens)]

    def _rows(self, step: int, number: int) -> np.ndarray:
        """Indices into `chosen`: int64 [texts]."""
        return self.order.rows(*divmod(step * self.accumulation + number, len(self.order)))

    def state(self) -> dict[str, int]:
        return {}

    def restore(self, state: dict[str, int]) -> None:
        """Nothing to restore."""
