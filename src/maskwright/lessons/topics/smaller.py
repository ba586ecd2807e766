"""Knowledge distillation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..lesson import FRONTIERS, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Smaller and longer"


def _distil(record: LessonRecorder) -> None:
    import torch

    from ...objectives.distillation import hidden_cosine_loss, soft_target_loss
    from ...report import Chart, Curves, Series
    from ..parts.scaling import attention_weights

    teacher = torch.tensor([[math.log(8.0), math.log(2.0), 0.0]])
    student = torch.zeros(1, 3)
    record.near("teacher at temperature 1", [8 / 11, 2 / 11, 1 / 11], attention_weights(teacher)[0])
    by_hand = sum(p * math.log(3 * p) for p in (8 / 11, 2 / 11, 1 / 11))
    record.near("loss of a uniform student, T = 1", by_hand, float(soft_target_loss(student, teacher, 1.0)))
    record.near(
        "loss of a student equal to the teacher", 0.0, float(soft_target_loss(teacher, teacher, 2.0)), of=teacher
    )
    norms = []
    for heat in (1.0, 2.0, 4.0, 8.0):
        own = torch.zeros(1, 3, requires_grad=True)
        soft_target_loss(own, teacher, heat).backward()
        assert own.grad is not None
        norms.append(float(own.grad.norm()))
    flat = max(norms) / min(norms)
    record.holds("gradient from T = 1 to 8", "T² keeps its size", f"{min(norms):.2f} to {max(norms):.2f}", flat < 2)
    turned = hidden_cosine_loss(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[2.0, 0.0], [1.0, 0.0]]))
    record.near("1 − cos: same direction 0, right angle 1; the sum", 1.0, float(turned), digits=1)
    heats = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0]
    lines = [
        Series(f"word {word + 1}", heats, [float(attention_weights(teacher / heat)[0, word]) for heat in heats])
        for word in range(3)
    ]
    record.show(Curves([Chart("Teacher distribution by temperature", lines, x_label="temperature")], title=""))
    second = float(attention_weights(teacher / 4)[0, 1])
    record.answer(
        f"The similarity of the wrong words: at temperature 4, the second word has {second:.2f} instead of "
        f"{2 / 11:.2f}. A label contains one word; a teacher also rates the others."
    )


LESSONS = (
    Lesson(
        "distillation",
        PART,
        FRONTIERS,
        "Smaller Model: DistilBERT",
        "Soft targets",
        "A small network is trained to match the probabilities of a large one, both softened by a temperature. The "
        "factor of the squared temperature keeps the size of the gradient.",
        ("objectives.distillation:soft_target_loss", "objectives.distillation:hidden_cosine_loss"),
        "What do soft targets contain that labels do not?",
        _distil,
    ),
)
