"""Several fine-tuned models as one: each reads the rows in turn, and their outputs are united as the task says.

One model is in memory at a time, so the number of members costs time and not room. The ensembles of Devlin et al. 2018,
section 4.2, are seven such models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ..core.errors import InputError
from ..core.progress import note
from ..tasks import Evaluation, Task
from ..tasks.base import AnyRow
from ..tasks.classification import Classification
from ..tasks.examples import Examples
from ..text.encoding import TextCounts
from .predict import Predictor


@dataclass(frozen=True)
class Member:
    """One model of an ensemble. name: for people; open: loads it."""

    name: str
    open: Callable[[], Predictor]


@dataclass(frozen=True)
class United:
    """What an ensemble says of some rows.

    task: of all members together; examples: the rows as the first member reads them; logits: united, as `Task.logits`
    gives them; scores: each member's metrics, by its name; evaluation: the ensemble's own. Both are empty, or None,
    where the rows were not to be scored.
    """

    task: Task
    examples: Examples
    logits: Tensor = field(repr=False)
    scores: dict[str, dict[str, float]]
    evaluation: Evaluation | None
    counts: TextCounts
    max_length: int

    def answers(self) -> Iterator[dict[str, Any]]:
        """Each row's texts with the ensemble's answer, and the gold answer where the row has one."""
        answers = self.task.answers(self.logits, self.examples)
        for row, answer in zip(self.examples.rows, answers, strict=True):
            texts = {"text": row.text} if row.text_pair is None else {"text": row.text, "text_pair": row.text_pair}
            yield {**texts, **answer} | ({} if row.label is None else {"gold": row.label})


class Ensemble:
    """Models of one task. Raises InputError when there is none, or two have one name."""

    def __init__(self, members: Sequence[Member]) -> None:
        if not members:
            raise InputError("An ensemble needs at least one model.")
        names = [member.name for member in members]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"{twice} is named twice: it would count double in the ensemble.")
        self.members = list(members)

    def run(
        self,
        read: Callable[[Task], Sequence[AnyRow]],
        *,
        is_scored: bool = True,
        skip_bad_rows: bool = False,
        batch_tokens: int | None = None,
    ) -> United:
        """Let every member answer, and unite the answers.

        read: the rows, from the task of the first member; is_scored: they have gold answers. Raises InputError when a
        member has another task or other labels, and what reading and tokenising raise.
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
                examples = task.unlabelled(rows, predictor.tokenizer, predictor.max_length, counts=predictor.counts)
                part, counts = task.logits(predictor.model, examples, batch_tokens), predictor.counts
            max_length = max_length or predictor.max_length
            tasks.append(task)
            read_as.append(examples)
            part = part if task.temperature is None else part / task.temperature.value  # each at its own
            logits.append(part if order is None else part[:, order])
        united = copy(tasks[0].joined(tasks[1:]))
        united.temperature = None
        together = united.unite(logits, read_as)
        evaluation = united.score(together, read_as[0]) if is_scored else None
        return United(united, read_as[0], together, scores, evaluation, counts, max_length)


def _order(first: Task, task: Task, name: str) -> list[int] | None:
    """Where the labels of `first` stand among those of `task`; None where they are the same, or there are none."""
    if type(task) is not type(first):
        raise InputError(f"{name} is fine-tuned for {task.name}, and the first model for {first.name}.")
    is_multi = [isinstance(one, Classification) and one.multi_label for one in (first, task)]
    if set(task.labels) != set(first.labels) or is_multi[0] != is_multi[1]:
        raise InputError(
            f"{name} has other labels ({', '.join(task.labels[:8])}) than the first model "
            f"({', '.join(first.labels[:8])}): an ensemble answers one question."
        )
    return None if task.labels == first.labels else [task.labels.index(label) for label in first.labels]
