"""Distillation's losses: by hand, their gradients, and what they are for equals."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.objectives.distillation import (
    DistillationWeights,
    MaskedDistillation,
    hidden_cosine_loss,
    soft_binary_loss,
    soft_target_loss,
)
from maskwright.objectives.masked import MaskedLanguageModeling
from objectives.packing import batch_of, lively, objective_of

LOGITS = st.lists(st.floats(-8, 8, width=32), min_size=4, max_size=4)


def test_soft_targets_by_hand():
    """T = 2: the teacher says (2/3, 1/3), the student (1/2, 1/2); T^2 KL = 4 (2/3 ln 4/3 + 1/3 ln 2/3)."""
    teacher, student = torch.tensor([[2 * math.log(2.0), 0.0]]), torch.zeros(1, 2)
    wanted = 4 * (2 / 3 * math.log(4 / 3) + 1 / 3 * math.log(2 / 3))
    assert float(soft_target_loss(student, teacher, 2.0)) == pytest.approx(wanted, rel=1e-6)
    assert float(soft_target_loss(student.repeat(3, 1), teacher.repeat(3, 1), 2.0)) == pytest.approx(3 * wanted)


@given(student=LOGITS, teacher=LOGITS, temperature=st.floats(0.5, 20))
def test_the_gradient_of_soft_targets_is_t_times_the_difference_of_the_answers(
    student: list[float], teacher: list[float], temperature: float
):
    found, wanted = torch.tensor([student], requires_grad=True), torch.tensor([teacher])
    soft_target_loss(found, wanted, temperature).backward()
    difference = (found.detach() / temperature).softmax(-1) - (wanted / temperature).softmax(-1)
    assert found.grad is not None
    assert torch.allclose(found.grad, temperature * difference, atol=1e-4)


def test_true_or_false_labels_by_hand():
    """T = 1: KL of Bernoulli(3/4) from Bernoulli(1/2), over two labels of which one agrees."""
    teacher, student = torch.tensor([[math.log(3.0), 0.0]]), torch.zeros(1, 2)
    wanted = (3 / 4 * math.log(3 / 2) + 1 / 4 * math.log(1 / 2)) / 2
    assert float(soft_binary_loss(student, teacher, 1.0)) == pytest.approx(wanted, rel=1e-5)


def test_hidden_states_are_compared_by_direction():
    teacher = torch.tensor([[3.0, 4.0], [1.0, 0.0], [1.0, 0.0]])
    student = torch.tensor([[6.0, 8.0], [0.0, 5.0], [-2.0, 0.0]])
    assert float(hidden_cosine_loss(student, teacher)) == pytest.approx(0 + 1 + 2)


def distillation(mix: DistillationWeights, student_spread: float = 0.2):
    task = objective_of("mlm")
    teacher, student = lively(task), lively(task, student_spread)
    return MaskedDistillation(task.recipe, teacher, mix, student), student  # type: ignore[arg-type]


def test_a_student_that_is_the_teacher_has_the_tasks_loss_alone():
    objective, student = distillation(DistillationWeights())
    batch = batch_of(objective)
    with torch.no_grad():
        found = objective.outcome(student, batch)
        task = MaskedLanguageModeling(objective.recipe).outcome(student, batch)
    assert float(found.losses["mlm"]) == pytest.approx(float(task.losses["mlm"]), rel=1e-6)
    assert float(found.losses["soft"]) == pytest.approx(0, abs=1e-4)
    assert float(found.losses["hidden"]) == pytest.approx(0, abs=1e-3)
    assert found.weights == {"mlm": 2.0, "soft": 5.0, "hidden": 1.0}
    assert int(found.scores["mlm"].correct) == int(task.scores["mlm"].correct)


def test_the_teacher_gets_no_gradient_and_the_student_all():
    objective, student = distillation(DistillationWeights(), 0.1)
    torch.stack(list(objective.outcome(student, batch_of(objective)).losses.values())).sum().backward()
    assert all(parameter.grad is None for parameter in objective.teacher.parameters())
    assert all(parameter.grad is not None and bool(parameter.grad.any()) for parameter in student.parameters())
