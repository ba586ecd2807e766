"""Ensembles of fine-tuned models: each predicts all rows, and the task averages the outputs.

Only one model is in memory at a time. Devlin et al. 2018, section 4.2, use ensembles of seven models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ..core.errors import InputError
from ..core.progress import note
from ..tasks.base import AnyRow, Evaluation, Task
from ..tasks.rows.examples import Examples
from ..text.tokenizers.encoding import TextCounts
from .predict import Predictor


@dataclass(frozen=True)
class Member:
    """One model of an ensemble. name: shown in messages; open: loads the model."""

    name: str
    open: Callable[[], Predictor]


@dataclass(frozen=True)
class EnsemblePredictions:
    """Predictions of an ensemble.

    task: combined task of all members; examples: the rows as tokenized by the first member; logits: combined, as from
    `Task.logits`; scores: metrics of each member by name; evaluation: metrics of the ensemble. The last two are empty
    and None if the rows are not scored.
    """

    task: Task
    examples: Examples
    logits: Tensor = field(repr=False)
    scores: dict[str, dict[str, float]]
    evaluation: Evaluation | None
    counts: TextCounts
    max_length: int

    def answers(self) -> Iterator[dict[str, Any]]:
        """Yield the texts of each row with the prediction, and the gold label if there is one."""
        answers = self.task.answers(self.logits, self.examples)
        for row, answer in zip(self.examples.rows, answers, strict=True):
            texts = {"text": row.text} if row.text_pair is None else {"text": row.text, "text_pair": row.text_pair}
            yield {**texts, **answer} | ({} if row.label is None else {"gold": row.label})


class Ensemble:
    """Models of one task. Raises InputError if there is no model, or two have the same name."""

    def __init__(self, members: Sequence[Member]) -> None:
        if not members:
            raise InputError("An ensemble needs at least one model.")
        names = [member.name for member in members]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"{twice} is listed twice: pass each model once.")
        self.members = list(members)

    def run(
        self,
        read: Callable[[Task], Sequence[AnyRow]],
        *,
        is_scored: bool = True,
        skip_bad_rows: bool = False,
        batch_tokens: int | None = None,
    ) -> EnsemblePredictions:
        """Predict with every member and combine the predictions.

        read: reads the rows, given the task of the first member; is_scored: the rows have gold labels. Raises
        InputError if a member has another task or other labels, and the errors of reading and tokenizing.
        """
        tasks: list[Task] = []
        read_as: list[Examples] = []
        logits: list[Tensor] = []
        scores: dict[str, dict[str, float]] = {}
        rows: Sequence[AnyRow] = ()
        counts, max_length = TextCounts(), 0
        for number, member in enumerate(self.members, start=1):
            note(f"model {number} of {len(self.members)}: {member.name}")
            predictor = member.open()
            task = predictor.task
            order = _order(tasks[0] if tasks else task, task, member.name)
            rows = rows if tasks else read(task)
            if is_scored:
                examples, found = predictor.evaluate(rows, skip_bad_rows=skip_bad_rows, batch_tokens=batch_tokens)
                scores[member.name] = found.metrics
                part, counts = found.logits, counts if tasks else examples.counts
            else:
                examples = task.unlabeled(rows, predictor.tokenizer, predictor.max_length, counts=predictor.counts)
                part, counts = task.logits(predictor.model, examples, batch_tokens), predictor.counts
            max_length = max_length or predictor.max_length
            tasks.append(task)
            read_as.append(examples)
            part = part if task.temperature is None else part / task.temperature.value  # each at its own temperature
            logits.append(part if order is None else part[:, order])
        combined = copy(tasks[0].joined(tasks[1:]))
        combined.temperature = None
        averaged = combined.combine_predictions(logits, read_as)
        evaluation = combined.score(averaged, read_as[0]) if is_scored else None
        return EnsemblePredictions(combined, read_as[0], averaged, scores, evaluation, counts, max_length)


def _order(first: Task, task: Task, name: str) -> list[int] | None:
    """Return the indices of the labels of `first` in `task`; None if the labels are identical or absent."""
    if type(task) is not type(first):
        raise InputError(f"{name} is fine-tuned for {task.name}, but the first model for {first.name}.")
    if set(task.labels) != set(first.labels) or task.problem_type != first.problem_type:
        raise InputError(
            f"{name} has other labels ({', '.join(task.labels[:8])}) than the first model "
            f"({', '.join(first.labels[:8])}): all members need the same labels."
        )
    return None if task.labels == first.labels else [task.labels.index(label) for label in first.labels]
