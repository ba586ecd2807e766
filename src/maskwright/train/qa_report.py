"""What the page of a fine-tuning run shows of questions and answers."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..tasks.errors import worst_errors
from ..tasks.examples import Examples
from ..tasks.qa import QuestionAnswering
from ..tasks.qa_windows import Windows
from .report import Block, WorstError, WorstErrors

WORST, AROUND = 12, 160  # characters of a context shown before and behind


def refusal_baseline(dev: Examples) -> float:
    """The F1 of answering no question: the share that has no answer."""
    return sum(row.label == [] for row in dev.rows) / max(len(dev.rows), 1)


def qa_facts(task: QuestionAnswering, train: Examples, dev: Examples) -> dict[str, Any]:
    """Windows, questions without an answer, answers out of reach, and the threshold with how it is scored."""
    facts: dict[str, Any] = {}
    for name, examples in (("training", train), ("dev", dev)):
        assert isinstance(examples, Windows)
        facts[f"{name} windows"] = len(examples)
        facts[f"{name} questions without an answer"] = sum(row.label == [] for row in examples.rows)
        facts[f"{name} answers whole in no window"] = len(examples.unreachable)
    if task.threshold is not None:
        facts["no-answer threshold"] = f"{task.threshold.value:.4f}, chosen on the dev rows"
        facts["dev scores"] = "each half of the dev rows with the threshold of the other half"
    return facts


def qa_mistakes(task: QuestionAnswering, dev: Examples, logits: Tensor) -> list[Block]:
    """The dev questions that went wrong with the largest loss."""
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
    """The part of a context around a place, or its beginning."""
    start, end = max((place or 0) - AROUND, 0), (place or 0) + AROUND
    return ("…" if start else "") + context[start:end] + ("…" if end < len(context) else "")
