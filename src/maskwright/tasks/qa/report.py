"""Report blocks for question answering: statistics and worst errors."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...report import Block, WorstError, WorstErrors
from ..evaluation.errors import worst_errors
from ..rows.examples import Examples
from .task import QuestionAnswering
from .windows import Windows

WORST, AROUND = 12, 160  # AROUND: characters of context shown before and after an answer


def no_answer_baseline(dev: Examples) -> float:
    """F1 of always predicting no answer: the fraction of questions without one."""
    return sum(row.label == [] for row in dev.rows) / max(len(dev.rows), 1)


def qa_facts(task: QuestionAnswering, train: Examples, dev: Examples) -> dict[str, Any]:
    """Number of windows, unanswerable questions and unreachable answers, and the no-answer threshold."""
    facts: dict[str, Any] = {}
    for name, examples in (("training", train), ("dev", dev)):
        assert isinstance(examples, Windows)
        facts[f"{name} windows"] = len(examples)
        facts[f"{name} questions without an answer"] = sum(row.label == [] for row in examples.rows)
        facts[f"{name} answers whole in no window"] = len(examples.unreachable)
    if task.threshold is not None:
        facts["no-answer threshold"] = f"{task.threshold.value:.4f}, tuned on the dev examples"
        facts["dev scores"] = "each half of the dev examples with the threshold of the other half"
    return facts


def qa_mistakes(task: QuestionAnswering, dev: Examples, logits: Tensor) -> list[Block]:
    """The wrong dev predictions with the largest loss."""
    errors = [
        WorstError(
            error["text"],
            " | ".join(dict.fromkeys(error["gold"])) or "no answer",
            error["answer"] or "no answer",
            error["score"],
            text_pair=_around(error["text_pair"], error["start"]),
            line=error["line"],
        )
        for error in worst_errors(task, dev, logits, WORST)
    ]
    return [WorstErrors(errors)]


def _around(context: str, place: int | None) -> str:
    """The part of a context around a position, or its beginning."""
    start, end = max((place or 0) - AROUND, 0), (place or 0) + AROUND
    return ("…" if start else "") + context[start:end] + ("…" if end < len(context) else "")
