"""Report blocks for question answering: statistics and worst errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...report import Block, Command, WorstError, WorstErrors
from ..base import Evaluation
from ..evaluation.errors import worst_errors
from ..report import WORST, TaskReport
from .task import QuestionAnswering
from .windows import Windows

AROUND = 160  # characters of context shown before and after an answer


class QaReport(TaskReport[QuestionAnswering]):
    """Blocks of a question-answering model."""

    sequences = "windows"

    def facts(self) -> dict[str, Any]:
        """Returns the number of windows, unanswerable questions and unreachable answers, and the threshold."""
        facts: dict[str, Any] = {}
        for name, examples in (("training", self.data.train), ("dev", self.data.dev)):
            assert isinstance(examples, Windows)
            facts[f"{name} windows"] = len(examples)
            facts[f"{name} questions without an answer"] = sum(row.label == [] for row in examples.rows)
            facts[f"{name} answers whole in no window"] = len(examples.unreachable)
        if self.task.threshold is not None:
            facts["no-answer threshold"] = f"{self.task.threshold.value:.4f}, tuned on the dev examples"
            facts["dev scores"] = "each half of the dev examples with the threshold of the other half"
        return facts

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the wrong dev predictions with the largest loss."""
        errors = [
            WorstError(
                error["text"],
                " | ".join(dict.fromkeys(error["gold"])) or "no answer",
                error["answer"] or "no answer",
                error["score"],
                text_pair=_around(error["text_pair"], error["start"]),
                line=error["line"],
            )
            for error in worst_errors(self.task, self.data.dev, evaluation.logits, WORST)
        ]
        return [WorstErrors(errors)]

    def next_steps(self, model: Path, test: str) -> list[Command]:
        """Returns commands that use the trained model."""
        return [
            Command.suggest("score it on unseen test questions", "evaluate", model=model, file=test),
            self.use(model),
        ]


def _around(context: str, place: int | None) -> str:
    """The part of a context around a position, or its beginning."""
    start, end = max((place or 0) - AROUND, 0), (place or 0) + AROUND
    return ("…" if start else "") + context[start:end] + ("…" if end < len(context) else "")
