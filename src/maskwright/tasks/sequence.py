"""Tasks on whole sequences: one answer for each text or pair of texts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..core.errors import InputError, RowError, RowErrors
from ..data.batch import Batch
from ..objectives.outcome import Outcome
from ..text.encoding import TextCounts
from ..text.tables import Row
from .base import Evaluation, Task
from .examples import Examples, map_batches, tokenize_rows

if TYPE_CHECKING:
    from ..models.model import Model
    from ..text.tokenizer import Tokenizer


class SequenceTask(Task):
    """One answer for each text or pair of texts. Its logits are float32 [rows, labels]."""

    @abstractmethod
    def target(self, label: str | None) -> Any:
        """The target of one row: a number or list of numbers. Raises ValueError saying what is wrong."""

    @abstractmethod
    def as_targets(self, values: Sequence[Any]) -> Tensor:
        """The targets of many rows as the tensor that `loss_of` takes: [rows] or [rows, labels]."""

    @abstractmethod
    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Mean loss over rows, a scalar. logits: float32 [rows, labels]; targets [rows] or [rows, labels]."""

    @abstractmethod
    def decode(self, logits: Tensor) -> list[dict[str, Any]]:
        """Logits float32 [rows, labels] as answers that can be written as JSON, one for each row."""

    @abstractmethod
    def metrics(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        """Metrics of logits float32 [rows, labels] against targets [rows] or [rows, labels]."""

    def num_correct(self, logits: Tensor, targets: Tensor) -> Tensor | None:
        """Rows answered right, an int scalar; None where an answer is not simply right or wrong."""
        return None

    def examples(
        self,
        rows: Sequence[Row],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        *,
        file: str | None = None,
        skip_bad_rows: bool = False,
    ) -> Examples:
        """Tokenise labelled rows to at most `max_length` tokens; see `Task.examples`."""
        good, values = self.check(rows, file, skip_bad_rows=skip_bad_rows)
        if not good:
            raise InputError(f"{file or 'The data'} has no usable row: give at least one labelled text.")
        return tokenize_rows(good, tokenizer, max_length, self.as_targets(values), len(rows) - len(good))

    def unlabelled(
        self, rows: Sequence[Row], tokenizer: Tokenizer, max_length: int | None = None, *, counts: TextCounts
    ) -> Examples:
        """Tokenise rows without targets; longer ones are cut, and counted."""
        return tokenize_rows(rows, tokenizer, max_length, counts=counts)

    def check(
        self, rows: Sequence[Row], file: str | None = None, *, skip_bad_rows: bool = False
    ) -> tuple[list[Row], list[Any]]:
        """The rows whose label is usable, and their targets. Raises RowErrors as `examples` does."""
        good, values, bad = [], [], []
        for row in rows:
            try:
                values.append(self.target(row.label))
            except ValueError as error:
                bad.append(RowError(file or row.file, row.line, "label", str(error)))
            else:
                good.append(row)
        if bad and not skip_bad_rows:
            raise RowErrors(bad)
        return good, values

    def remarks(self, examples: Examples, name: str, max_length: int) -> list[str]:
        """Rows that are cut, and dev rows that all have one label."""
        found = []
        if examples.num_truncated:
            found.append(f"{examples.num_truncated:,} of {len(examples):,} {name} rows are cut to {max_length} tokens.")
        labels = {row.label for row in examples.rows}
        if name == "dev" and len(labels) == 1:
            found.append(f"All dev rows have the label '{labels.pop()}', so the dev scores say little.")
        return found

    def counts(self, batch: Batch) -> dict[str, int]:
        """Rows of a batch."""
        return {self.name: len(batch)}

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean loss over the sequences of a batch with the label "sequence": a scalar with gradient."""
        return self.loss_of(model.logits(batch).float(), batch.labels["sequence"])

    def outcome(self, model: Model, batch: Batch) -> Outcome:
        """Summed loss and right answers of a batch with the label "sequence"."""
        logits, targets = model.logits(batch).float(), batch.labels["sequence"]
        total = self.loss_of(logits, targets) * len(batch)
        correct = self.num_correct(logits.detach(), targets)
        return Outcome({self.name: total}, self.counts(batch), {} if correct is None else {self.name: correct})

    def outputs(self, model: Model, examples: Examples, batch_tokens: int | None) -> Tensor:
        """float32 [rows, labels]."""
        device = next(model.parameters()).device
        return map_batches(examples, model.logits, device=device, batch_tokens=batch_tokens)

    def answers(self, logits: Tensor, examples: Examples) -> list[dict[str, Any]]:
        """One answer for each row, as `decode` words it."""
        return self.decode(logits)

    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        """float32 [rows]."""
        targets = labelled(examples)
        return torch.stack([self.loss_of(logits[row : row + 1], targets[row : row + 1]) for row in range(len(logits))])

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """`metrics` and the mean loss over rows."""
        targets = labelled(examples)
        return Evaluation(self.metrics(logits, targets), logits, float(self.loss_of(logits, targets)))

    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        """Whether the class, or every label of several, is the gold one; a number never is."""
        target = labelled(examples)[row]
        if "labels" in answer:
            chosen = set(answer["labels"])
            return all((label in chosen) == bool(value) for label, value in zip(self.labels, target, strict=True))
        return "label" in answer and self.labels[int(target)] == answer["label"]


def labelled(examples: Examples) -> Tensor:
    """The targets of examples, [rows] or [rows, labels]. Raises InputError where there are none."""
    if examples.targets is None:
        raise InputError("Labelled rows are needed.")
    return examples.targets
