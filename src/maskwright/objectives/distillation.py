"""Knowledge distillation: a student model learns from a teacher (Hinton et al. 2015; Sanh et al. 2019, section 2).

Three mean losses with the published weights 5, 2 and 1: the teacher's softened distribution, the task itself, and the
direction of the last hidden states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..data.batch import Batch
from ..models.config import ModelConfig
from ..models.model import Model
from .masked import MaskedLanguageModeling
from .masking import MaskedRecipe
from .outcome import LossSums


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
    """Sum over tokens of 1 - cos(student, teacher), a scalar. Both float [tokens, hidden]."""
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
        """Returns the initial student."""
        assert self.student is not None and self.student.config == config, "the student was made for another network"
        return self.student

    def counts(self, batch: Batch) -> dict[str, int]:
        """Number of masked tokens for predictions, all tokens for hidden states."""
        labels = len(batch.labels["mlm"])
        counts = {"mlm": labels, "soft": labels}
        return counts | {"hidden": batch.num_tokens} if self.mix.hidden_weight else counts

    def outcome(self, model: nn.Module, batch: Batch) -> LossSums:
        """Losses and accuracy of the student on a masked batch."""
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
