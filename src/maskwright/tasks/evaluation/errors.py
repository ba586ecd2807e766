"""Error analysis for reports: wrong predictions with the largest loss."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...core.errors import InputError
from ..base import Task
from ..examples import Examples


def worst_errors(task: Task, examples: Examples, logits: Tensor, limit: int = 20) -> list[dict[str, Any]]:
    """Wrong predictions with the largest loss, worst first.

    Each is {"line", "text", "text_pair", "gold", "loss"} and the fields of the prediction. For regression it lists the
    rows with the largest squared error.
    """
    if examples.targets is None:
        raise InputError("Errors can be listed for labeled rows only.")
    losses = task.losses(logits, examples)
    answers = task.answers(logits, examples)
    found: list[dict[str, Any]] = []
    for index in losses.argsort(descending=True).tolist():
        if len(found) == limit:
            break
        row, answer = examples.rows[index], answers[index]
        if task.is_right(examples, index, answer):
            continue
        facts = {"line": row.line, "text": row.text, "text_pair": row.text_pair, "gold": row.label}
        found.append({**facts, **answer, "loss": float(losses[index])})
    return found
