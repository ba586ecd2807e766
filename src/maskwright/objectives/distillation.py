"""Distillation: a small network learns what a large one answers (Hinton et al. 2015; Sanh et al. 2019, section 2).

Three losses, each a mean, with the published weights 5, 2 and 1: the teacher's softened answers, the task itself, and
the direction of the last hidden states.
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
from .outcome import Outcome
from .pretraining import GENERATOR_SHARE, MaskedLanguageModelling, Recipe


@dataclass(frozen=True)
class Mix:
    """temperature: what logits are divided by before the softmax; the weights of the three losses, 0 for without."""

    temperature: float = 2.0
    soft_weight: float = 5.0
    task_weight: float = 2.0
    hidden_weight: float = 1.0

    def weights(self, task: str) -> dict[str, float]:
        """The weight of each part; `task`: what the task's own part is called."""
        return {"soft": self.soft_weight, "hidden": self.hidden_weight, task: self.task_weight}


def soft_target_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Sum over rows of T^2 KL(softmax(teacher / T) || softmax(student / T)), a scalar (Hinton et al. 2015, section 2).

    student, teacher: float [rows, classes], logits. T^2 keeps the gradient as large as that of hard labels, whatever T
    is: it is T (p_student - p_teacher), which for a large T tends to the difference of the centred logits / classes.
    """
    found = F.log_softmax(student.float() / temperature, dim=-1)  # [rows, classes]
    wanted = F.log_softmax(teacher.float() / temperature, dim=-1)
    return temperature**2 * F.kl_div(found, wanted, reduction="sum", log_target=True)


def soft_binary_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """The same for labels that are each true or false: mean over labels, sum over rows, a scalar.

    student, teacher: float [rows, labels], logits. Cross-entropy above the teacher's own, so that it is 0 for equals.
    """
    found, wanted = student.float() / temperature, teacher.float() / temperature  # [rows, labels]
    share = torch.sigmoid(wanted)
    above = F.binary_cross_entropy_with_logits(found, share, reduction="none") - F.binary_cross_entropy_with_logits(
        wanted, share, reduction="none"
    )
    return temperature**2 * above.mean(dim=-1).sum()


def hidden_cosine_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Sum over tokens of 1 - cos(student, teacher), a scalar. Both float [tokens, hidden]."""
    return (1 - F.cosine_similarity(student.float(), teacher.float(), dim=-1)).sum()


class MaskedDistillation(MaskedLanguageModelling):
    """Guess masked tokens as the teacher does: its distribution at them, its last hidden states, and the text itself.

    teacher: a model that predicts masked tokens, as wide as the student where hidden states are compared; student: the
    model to begin with, or None where none is made.
    """

    name: ClassVar[str] = "distill"
    parts: ClassVar[tuple[str, ...]] = ("mlm", "soft", "hidden")

    def __init__(self, recipe: Recipe, teacher: Model, mix: Mix, student: Model | None = None) -> None:
        super().__init__(recipe)
        self.teacher, self.mix, self.student = teacher.eval().requires_grad_(False), mix, student

    @classmethod
    def make(cls, config: ModelConfig, generator_share: float = GENERATOR_SHARE) -> nn.Module:
        """An unfilled student."""
        return Model(config, cls.head)

    def network(self, config: ModelConfig, seed: int) -> nn.Module:
        """The student at its first step."""
        assert self.student is not None and self.student.config == config, "the student was made for another network"
        return self.student

    def counts(self, batch: Batch) -> dict[str, int]:
        """Masked tokens for answers, all tokens for hidden states."""
        labels = len(batch.labels["mlm"])
        counts = {"mlm": labels, "soft": labels}
        return counts | {"hidden": batch.num_tokens} if self.mix.hidden_weight else counts

    def outcome(self, model: nn.Module, batch: Batch) -> Outcome:
        """Losses and right answers of the student on a masked batch."""
        student, positions, right = self.kept(model), batch.labels["mlm_positions"], batch.labels["mlm"]
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
        correct = {"mlm": (logits.detach().argmax(dim=-1) == right).sum()}
        return Outcome(losses, self.counts(batch), correct, self.mix.weights("mlm"))
