"""Report blocks of tasks that generate a target text: generated texts of the first dev examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...models.model import Model, tokenizer_of
from ...report import Block, WorstError, WorstErrors
from ...text.tokenizers.encoding import TextCounts
from ..base import Evaluation
from ..report import AnyTask, TaskReport

SHOWN = 12  # dev examples with their generated texts


class TargetReport(TaskReport[AnyTask]):
    """Blocks of a text generation task.

    output: key of the generated text in a prediction; note: how it is generated, for the table.
    """

    output: ClassVar[str]
    note: ClassVar[str]

    def mistakes(self, evaluation: Evaluation) -> list[Block]:
        """Returns the first dev examples with the output of the saved model; none for a run without one model."""
        model = self.data.saved_model()
        if model is None:
            return []
        rows = self.data.dev.rows[:SHOWN]
        length = self.data.max_length
        answers = self.task.predict(model, self.task.unlabeled(rows, tokenizer_of(model), length, counts=TextCounts()))
        errors = [
            WorstError(row.text, str(row.label), answer[self.output], loss=-answer["score"], line=row.line)
            for row, answer in zip(rows, answers, strict=True)
        ]
        return [WorstErrors(errors, title="Generated texts", note=self.note), *self.more(model, rows, answers)]

    def more(self, model: Model, rows: Sequence[Any], answers: Sequence[dict[str, Any]]) -> list[Block]:
        """Returns further blocks about the generated texts. answers: one prediction for each of the rows."""
        return []
