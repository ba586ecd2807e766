"""What the page of a fine-tuning run shows of multiple choice: rows that went wrong, and rows that went right."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..tasks.choice import Choice
from ..tasks.choice_examples import ChoiceExamples
from ..tasks.errors import worst_errors
from ..tasks.examples import Examples
from .report import Block, Table, WorstError, WorstErrors
from .report.numbers import percent

WORST, RIGHT = 12, 8
LONGEST = 160  # characters of a context in the table


def guessing(dev: Examples) -> float:
    """The accuracy of choosing blindly."""
    assert isinstance(dev, ChoiceExamples)
    return 1 / dev.num_choices


def choice_facts(train: Examples, dev: Examples) -> dict[str, Any]:
    """How many choices a row has, and the tokens of the longest."""
    facts: dict[str, Any] = {}
    for name, examples in (("training", train), ("dev", dev)):
        assert isinstance(examples, ChoiceExamples)
        facts[f"choices of a {name} row"] = examples.num_choices
        facts[f"longest {name} choice, in tokens with its context"] = int(examples.sequence_lengths.max())
        if examples.windows is not None:
            facts[f"windows of {name} choices"] = len(examples.input_ids)
            facts[f"{name} windows left out"] = examples.windows.num_left_out
    return facts


def choice_blocks(task: Choice, dev: Examples, logits: Tensor) -> list[Block]:
    """The wrong rows with the largest loss, and the right ones that were nearest to a wrong answer and surest."""
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
    note = "Half of them only just right, half the surest ones."
    return Table(("Context", "Chosen", "Probability"), rows, title="Right answers", note=note)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else "… " + text[-LONGEST:]
