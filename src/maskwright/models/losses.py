"""Losses of the padded call, as in transformers. Labels of -100 are ignored."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.errors import InputError

IGNORED = -100
REGRESSION = "regression"
PROBLEM_TYPES = (REGRESSION, "single_label_classification", "multi_label_classification")


def cross_entropy(logits: Tensor, labels: Tensor, what: str) -> Tensor:
    """Mean categorical cross-entropy in float32 or better. logits: float [n, classes]; labels: int [n]."""
    check_labels(labels, logits.shape[-1], what)
    return F.cross_entropy(to_float32(logits), labels.long())


def sequence_loss(logits: Tensor, labels: Tensor, problem_type: str | None) -> Tensor:
    """Loss of a sequence head.

    logits: float [sequences, num_labels]; labels: int [sequences] for single_label_classification, float [sequences]
    (or [sequences, num_labels]) for regression (squared error), 0/1 [sequences, num_labels] for
    multi_label_classification. problem_type None: one output means regression, integer labels single-label, others
    multi-label classification.
    """
    problem_type = problem_type or infer_problem_type(logits.shape[-1], labels)
    logits = to_float32(logits)
    if problem_type == "single_label_classification":
        return cross_entropy(logits, labels.reshape(-1), "labels")
    if labels.numel() != logits.numel():
        raise InputError(
            f"labels have shape {list(labels.shape)}; {problem_type} needs one number per output, "
            f"{logits.shape[0]} x {logits.shape[1]}."
        )
    targets = labels.reshape(logits.shape).to(logits.dtype)
    if problem_type == REGRESSION:
        return F.mse_loss(logits, targets)
    return F.binary_cross_entropy_with_logits(logits, targets)


def replaced_token_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean binary cross-entropy. logits: float [tokens]; labels: int [tokens], 1 for a replaced token."""
    wrong = labels[(labels != 0) & (labels != 1)]
    if wrong.numel():
        raise InputError(f"labels contain {wrong[0].item()}; they must be 1 for a replaced token and 0 for others.")
    logits = to_float32(logits)
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))


def span_loss(start_logits: Tensor, end_logits: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """Mean of the cross-entropies of start and end over all columns.

    start_logits, end_logits: float [batch, seq]; starts, ends: int [batch] or [batch, 1], columns. As in transformers,
    positions beyond the last column are ignored, and negative ones count as 0.
    """
    seq = start_logits.shape[1]
    losses = []
    for what, logits, columns in (("start_positions", start_logits, starts), ("end_positions", end_logits, ends)):
        if columns.numel() != len(logits) or columns.is_floating_point():
            raise InputError(f"{what} must be one integer per row, {len(logits)} in total.")
        targets = columns.reshape(-1).long().clamp(0, seq)
        losses.append(F.cross_entropy(to_float32(logits), targets, ignore_index=seq))
    return (losses[0] + losses[1]) / 2


def infer_problem_type(num_labels: int, labels: Tensor) -> str:
    """Infers the problem type from labels, [sequences] or [sequences, num_labels], as in transformers."""
    if num_labels == 1:
        return REGRESSION
    return "multi_label_classification" if labels.is_floating_point() else "single_label_classification"


def check_labels(labels: Tensor, num_classes: int, what: str) -> None:
    """Raises InputError if a label, int of any shape [...], is neither -100 nor a class."""
    if labels.is_floating_point():
        raise InputError(f"{what} must be integers, not {str(labels.dtype).removeprefix('torch.')}.")
    wrong = labels[(labels != IGNORED) & ((labels < 0) | (labels >= num_classes))]
    if wrong.numel():
        raise InputError(
            f"{what} contain {int(wrong[0])}; they must be 0 to {num_classes - 1}, or {IGNORED} to ignore."
        )


def to_float32(logits: Tensor) -> Tensor:
    """Converts half precision to float32; keeps float32 and float64. logits: any shape [...]."""
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
