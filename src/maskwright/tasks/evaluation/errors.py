"""Error analysis for reports: confusion matrix, wrong predictions with the largest loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...core.errors import InputError
from ..base import Task
from ..classification.task import Classification
from ..rows.examples import Examples


def confusion_matrix(task: Classification, logits: Tensor, targets: Tensor) -> list[list[int]]:
    """Number of rows by gold class (first index) and predicted class (second): int [labels, labels].

    Raises InputError for multi-label tasks.
    """
    if task.multi_label:
        raise InputError("A confusion matrix needs one label for each row.")
    cells = targets * task.num_labels + torch.from_numpy(task.decide(logits))  # [rows]
    counts = torch.bincount(cells, minlength=task.num_labels**2)
    table: list[list[int]] = counts.view(task.num_labels, task.num_labels).tolist()
    return table


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
