"""Knowledge distillation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..inputs import Matrix, matrix, number
from ..lesson import FRONTIERS, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Smaller and longer"


def _distil(record: LessonRecorder, temperature: float, shares: Matrix) -> None:
    import torch

    from ...objectives.distillation import hidden_cosine_loss, soft_target_loss
    from ...report import Bar, Bars, Chart, Curves, Series
    from ..parts.scaling import attention_weights

    (given,) = shares
    count = len(given)
    teacher = torch.tensor([[math.log(one) for one in given]])
    student = torch.zeros(1, count)
    plain = [one / sum(given) for one in given]
    record.near("teacher at temperature 1", plain, attention_weights(teacher)[0], law=True)
    by_hand = sum(p * math.log(count * p) for p in plain)
    loss = float(soft_target_loss(student, teacher, 1.0))
    record.near("loss of a uniform student, T = 1", by_hand, loss, of=teacher, law=True)
    equal = float(soft_target_loss(teacher, teacher, 2.0))
    record.near("loss of a student equal to the teacher", 0.0, equal, of=teacher, law=True)
    raised = [one ** (1 / temperature) for one in given]
    soft = [one / sum(raised) for one in raised]
    warm = attention_weights(teacher / temperature)[0]
    record.near(f"teacher at temperature {temperature:g}", soft, warm, law=True)
    record.show(Bars([Bar(f"word {n}", one, f"{one:.3f}") for n, one in enumerate(soft, 1)],
                     title=f"Teacher distribution at temperature {temperature:g}"))  # fmt: skip
    norms = []
    for heat in (1.0, 2.0, 4.0, 8.0):
        own = torch.zeros(1, count, requires_grad=True)
        soft_target_loss(own, teacher, heat).backward()
        assert own.grad is not None
        norms.append(float(own.grad.norm()))
    flat = max(norms) / max(min(norms), 1e-12)
    record.holds("gradient from T = 1 to 8", "T² keeps its size", f"{min(norms):.2f} to {max(norms):.2f}", flat < 2)
    turned = hidden_cosine_loss(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[2.0, 0.0], [1.0, 0.0]]))
    record.near("1 − cos: same direction 0, right angle 1; the sum", 1.0, float(turned), digits=1, law=True)
    heats = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0]
    lines = [
        Series(f"word {word + 1}", heats, [float(attention_weights(teacher / heat)[0, word]) for heat in heats])
        for word in range(count)
    ]
    record.show(Curves([Chart("Teacher distribution by temperature", lines, x_label="temperature")], title=""))
    record.answer(
        f"The similarity of the wrong words: at temperature {temperature:g}, the second word has {soft[1]:.2f} instead "
        f"of {plain[1]:.2f}. A label contains one word; a teacher also rates the others."
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
        (
            number("temperature", "Temperature", 4, 0.5, 20, 0.5),
            matrix("shares", "Shares of the teacher's words", ((8, 2, 1),), 1e-3, 1e6, rows=1, columns=3),
        ),
    ),
)
