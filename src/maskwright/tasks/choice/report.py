"""Report blocks for multiple choice: wrong and correct predictions."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...report import Block, Table, WorstError, WorstErrors
from ...report.numbers import percent
from ..evaluation.errors import worst_errors
from ..rows.examples import Examples
from .examples import ChoiceExamples
from .task import Choice

WORST, RIGHT = 12, 8
LONGEST = 160  # characters of a context in the table


def chance_accuracy(dev: Examples) -> float:
    """Accuracy of random guessing."""
    assert isinstance(dev, ChoiceExamples)
    return 1 / dev.num_choices


def choice_facts(train: Examples, dev: Examples) -> dict[str, Any]:
    """Number of choices per row, tokens of the longest choice, windows."""
    facts: dict[str, Any] = {}
    for name, examples in (("training", train), ("dev", dev)):
        assert isinstance(examples, ChoiceExamples)
        facts[f"choices of a {name} row"] = examples.num_choices
        facts[f"longest {name} choice, in tokens with its context"] = int(examples.sequence_lengths.max())
        if examples.windows is not None:
            facts[f"windows of {name} choices"] = len(examples.input_ids)
            facts[f"{name} windows left out"] = examples.windows.num_dropped_windows
    return facts


def choice_blocks(task: Choice, dev: Examples, logits: Tensor) -> list[Block]:
    """Wrong rows with the largest loss, and the correct rows with the lowest and highest confidence."""
    wrong = [
        WorstError(
            error["text"],
            error["choices"][error["gold"]],
            error["choice"],
            error["score"],
            text_pair=error["text_pair"],
            line=error["line"],
        )
        for error in worst_errors(task, dev, logits, WORST)
    ]
    return [WorstErrors(wrong), _right(task, dev, logits)]


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
