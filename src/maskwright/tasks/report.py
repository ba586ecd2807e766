"""Report blocks of a task: the base class. A task that shows more has a subclass in its `report.py`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ..core.registry import load
from ..report import Bar, Bars, Block, Command, WorstError, WorstErrors
from ..report.numbers import percent
from .base import Evaluation, Task
from .data import TaskData
from .evaluation.errors import worst_errors
from .rows.examples import Examples
from .rows.long_examples import LongExamples

WORST = 12  # wrong predictions shown
MOST_LABELS = 30  # labels in the chart of the training rows
AnyTask = TypeVar("AnyTask", bound=Task)


class TaskReport(Generic[AnyTask]):
    """Blocks of the report of a fine-tuning run that depend on the task.

    sequences: plural noun for what the model reads as one sequence, for the chart of lengths.
    """

    sequences: ClassVar[str] = "rows"

    def __init__(self, task: AnyTask, data: TaskData) -> None:
        self.task, self.data = task, data

    def facts(self) -> dict[str, Any]:
        """Returns dataset statistics in addition to the numbers of rows and tokens."""
        return self.length_facts()

    def length_facts(self) -> dict[str, Any]:
        """Returns how many rows were truncated, or how many windows they make."""
        train, dev, length = self.data.train, self.data.dev, self.data.max_length
        windows = self.windows(train)
        if windows is None:
            return {
                f"training rows truncated to {length} tokens": train.num_truncated,
                "truncated dev examples": dev.num_truncated,
            }
        return {
            f"training windows of {length} tokens": len(windows.input_ids),
            "training texts with more than the maximum of windows": windows.num_limited_rows,
            "skipped windows of them": windows.num_dropped_windows,
            "dev windows": len(dev.input_ids),
        }

    def windows(self, examples: Examples) -> LongExamples | None:
        """Returns the windows of long texts; None if the examples are truncated."""
        long = getattr(self.task, "long", None)
        is_split = long is not None and not long.both_orders
        return examples if is_split and isinstance(examples, LongExamples) else None

    def threshold_facts(self, name: str, value: float) -> dict[str, Any]:
        """Returns the decision threshold that was tuned on the dev examples, and how they are scored."""
        return {
            name: f"{value:.4f}, chosen on the dev examples",
            "dev scores": "cross-fitted: each half of the dev examples with the threshold of the other half",
        }

    def labels(self) -> list[Block]:
        """Returns charts of the labels of the training rows; none if the task has no labels."""
        if not self.task.labels:
            return []
        counts = Counter(str(row.label) for row in self.data.train_rows)
        return [counts_chart(counts, "Classes in the training rows")]

    def lengths(self) -> np.ndarray:
        """Returns the lengths of the training sequences in tokens: int64 [sequences]."""
        return self.data.train.lengths

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the wrong dev predictions with the largest loss. evaluation: of the dev examples."""
        if self.data.dev.targets is None:
            return []
        errors = [
            WorstError(
                error["text"],
                str(error["gold"]),
                str(error.get("label", error.get("score", ""))),
                loss=error["loss"],
                text_pair=error["text_pair"],
                line=error["line"],
            )
            for error in worst_errors(self.task, self.data.dev, evaluation.logits, WORST)
        ]
        return [WorstErrors(errors)]

    def next_steps(self, model: Path, test: str) -> list[Command]:
        """Returns commands that use the trained model. test: name of a test file."""
        return [
            Command.suggest("score it on unseen test rows", "evaluate", model=model, file=test),
            self.use(model),
            Command.suggest("use it on a file", "predict", model=model, input="texts.txt", output="answers.jsonl"),
        ]

    def use(self, model: Path, about: str = "use it") -> Command:
        """Returns the command that uses the trained model on one example."""
        command, values = self.task.usage
        return Command.suggest(about, command, model=model, **values)


def report_of(data: TaskData) -> TaskReport[Any]:
    """Returns the report blocks of the task of a run."""
    blocks: TaskReport[Any] = load(data.task.report)(data.task, data)
    return blocks


def counts_chart(counts: Counter[str], title: str) -> Bars:
    """Returns a bar chart of the most common labels, with their fractions."""
    total = max(sum(counts.values()), 1)
    bars = [
        Bar(label, count, f"{count:,} ({percent(count / total)})") for label, count in counts.most_common(MOST_LABELS)
    ]
    return Bars(bars, title=title)
