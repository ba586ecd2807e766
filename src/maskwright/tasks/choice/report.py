"""Report blocks for multiple choice: wrong and correct predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ...report import Block, Command, Table, WorstError, WorstErrors
from ...report.numbers import percent
from ..base import Evaluation
from ..evaluation.errors import worst_errors
from ..report import WORST, TaskReport
from ..rows.examples import Examples
from .task import Choice, ChoiceExamples

RIGHT = 8  # correct predictions shown
LONGEST = 160  # characters of a context in the table


class ChoiceReport(TaskReport[Choice]):
    """Blocks of a multiple-choice model."""

    sequences = "choices"

    def windows(self, examples: Examples) -> None:
        """Returns None: `facts` counts the windows of choices."""
        return None

    def facts(self) -> dict[str, Any]:
        """Adds the number of choices per row, the tokens of the longest choice, and windows."""
        facts = super().facts()
        for name, examples in (("training", self.data.train), ("dev", self.data.dev)):
            assert isinstance(examples, ChoiceExamples)
            facts[f"choices of a {name} row"] = examples.num_choices
            facts[f"longest {name} choice, in tokens with its context"] = int(examples.sequence_lengths.max())
            if examples.windows is not None:
                facts[f"windows of {name} choices"] = len(examples.input_ids)
                facts[f"{name} windows left out"] = examples.windows.num_dropped_windows
        return facts

    def lengths(self) -> np.ndarray:
        """Returns the lengths of the training choices with their contexts: int64 [sequences]."""
        assert isinstance(self.data.train, ChoiceExamples)
        return self.data.train.sequence_lengths

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the wrong rows with the largest loss, and correct rows with the lowest and highest confidence."""
        wrong = [
            WorstError(
                error["text"],
                error["choices"][error["gold"]],
                error["choice"],
                error["score"],
                text_pair=error["text_pair"],
                line=error["line"],
            )
            for error in worst_errors(self.task, self.data.dev, evaluation.logits, WORST)
        ]
        return [WorstErrors(wrong), _right(self.task, self.data.dev, evaluation.logits)]

    def next_steps(self, model: Path, test: str) -> list[Command]:
        """Returns commands that use the trained model."""
        return [
            *super().next_steps(model, test)[:2],
            Command.suggest("use it on a file", "predict", model=model, input="rows.jsonl", output="answers.jsonl"),
        ]


def _right(task: Choice, dev: Examples, logits: Tensor) -> Table:
    answers = task.answers(logits, dev)
    right = [row for row in range(len(dev)) if task.is_right(dev, row, answers[row])]
    order = sorted(right, key=lambda row: answers[row]["score"])
    shown = order[: RIGHT // 2] + order[RIGHT // 2 :][-(RIGHT // 2) :]
    rows = [
        (
            _short(" ".join(filter(None, (dev.rows[row].text, dev.rows[row].text_pair)))),
            answers[row]["choice"],
            percent(answers[row]["score"]),
        )
        for row in shown
    ]
    note = "The correct predictions with the lowest and the highest confidence, half of each."
    return Table(("Context", "Chosen", "Probability"), rows, title="Correct predictions", note=note)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else "… " + text[-LONGEST:]
