"""Distillation as a job of the training loop: on masked text, and on labeled rows."""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from ...core.errors import RunError
from ...data.batch import Batch
from ...models.losses import REGRESSION
from ...models.model import Model
from ...objectives.distillation import DistillationWeights, hidden_cosine_loss, soft_binary_loss, soft_target_loss
from ...objectives.outcome import LossSums
from ...tasks.rows.sequence import SequenceTask
from ..finetuning.job import FinetuneJob
from ..pretraining.job import PretrainJob


def weights_digest(model: Model) -> str:
    """The SHA-256 of a model's weights, which identifies a teacher."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def check_teacher(state: dict[str, Any], digest: str) -> None:
    """Raise RunError when a checkpoint was made with another teacher."""
    if state["teacher"] != digest:
        raise RunError(
            "The teacher's weights have changed since this run began: restore them, or restart from scratch with "
            "--restart."
        )


class TextDistillation(PretrainJob):
    """A pre-training whose objective has a teacher; its checkpoints contain the teacher's digest. See PretrainJob."""

    teacher_digest = ""

    def state(self) -> dict[str, Any]:
        """The position of the stream, and the teacher's digest."""
        return {**super().state(), "teacher": self.teacher_digest}

    def restore(self, state: dict[str, Any]) -> None:
        """Go to where a checkpoint was."""
        check_teacher(state, self.teacher_digest)
        super().restore(state)


class RowsDistillation(FinetuneJob):
    """A fine-tuning that also learns the teacher's predictions and hidden states; dev scores are only the task's."""

    task: SequenceTask

    def __init__(
        self, *args: Any, teacher: Model, teacher_digest: str, mix: DistillationWeights, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.teacher, self.teacher_digest, self.mix = teacher.eval().requires_grad_(False), teacher_digest, mix

    def counts(self, batch: Batch) -> dict[str, int]:
        """Number of rows of a batch, and of tokens for hidden states."""
        rows = self.task.counts(batch)
        counts = {**rows, "soft": rows[self.task.name]}
        return counts | {"hidden": batch.num_tokens} if self.mix.hidden_weight else counts

    def outcome(self, batch: Batch) -> LossSums:
        """Losses and correct predictions of the student on labeled rows."""
        with torch.no_grad():
            wanted_hidden = self.teacher.encode(batch).hidden  # [tokens, hidden]
            wanted = self.task.pooled(answers(self.teacher, wanted_hidden, batch), batch)  # [rows, labels]
        hidden = self.model.encode(batch).hidden  # [tokens, hidden]
        logits = self.task.pooled(answers(self.model, hidden, batch), batch)  # [rows, labels]
        targets = batch.labels["sequence"]
        losses = {
            self.task.name: self.task.loss_of(logits, targets) * len(targets),
            "soft": soft_loss(self.task.problem_type, logits, wanted, self.mix.temperature),
        }
        if self.mix.hidden_weight:
            losses["hidden"] = hidden_cosine_loss(hidden, wanted_hidden)
        right = self.task.num_correct(logits.detach(), targets)
        correct = {} if right is None else {self.task.name: right}
        return LossSums(losses, self.counts(batch), correct, self.mix.weights(self.task.name))

    def state(self) -> dict[str, Any]:
        """The best score so far, and the teacher's digest."""
        return {**super().state(), "teacher": self.teacher_digest}

    def restore(self, state: dict[str, Any]) -> None:
        """Go to where a checkpoint was."""
        check_teacher(state, self.teacher_digest)
        super().restore(state)


def answers(model: Model, hidden: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Logits of a sequence head: float32 [sequences, labels]. hidden: [tokens, hidden] of `encode`."""
    logits: torch.Tensor = model.head(model.first(hidden, batch))  # type: ignore[misc]  # of a sequence head
    return logits.float()


def soft_loss(
    problem_type: str | None, student: torch.Tensor, teacher: torch.Tensor, temperature: float
) -> torch.Tensor:
    """The distance of the student's predictions from the teacher's, summed over rows, a scalar.

    student, teacher: float [rows, labels], logits; a regression uses the squared difference, without a temperature.
    """
    if problem_type == REGRESSION:
        return (student - teacher).square().mean(dim=-1).sum()
    compare = soft_binary_loss if problem_type == "multi_label_classification" else soft_target_loss
    return compare(student, teacher, temperature)
