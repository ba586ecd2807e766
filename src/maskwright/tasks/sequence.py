"""Tasks on whole texts: one answer for each text or pair of texts.

A text that does not fit into one sequence is cut, or read in windows whose logits are pooled (`long_texts`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..core.errors import InputError, RowError, RowErrors
from ..core.plural import plural
from ..data.batch import Batch
from ..objectives.outcome import Outcome
from ..text.encoding import TextCounts
from ..text.tables import Row
from .base import Evaluation, Task
from .examples import Examples, map_batches, tokenize_rows
from .long_examples import LongExamples, rows_both_ways, window_remarks, window_rows
from .long_texts import LongTexts

if TYPE_CHECKING:
    from ..models.model import Model
    from ..text.tokenizer import Tokenizer


class SequenceTask(Task):
    """One answer for each text or pair of texts. Its logits are float32 [rows, labels].

    long: how texts are read that do not fit into one sequence; None where they are cut.
    """

    long: LongTexts | None = None

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

    @abstractmethod
    def loudest(self, heard: Tensor, answer: Mapping[str, Any]) -> dict[str, tuple[int, float]]:
        """For each label that a row is given, its loudest window and the score there; {"": ...} for a single answer.

        heard: float32 [windows, labels], logits of the row's windows.
        """

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
        return self.tokenize(good, tokenizer, max_length, self.as_targets(values), len(rows) - len(good))

    def unlabelled(
        self, rows: Sequence[Row], tokenizer: Tokenizer, max_length: int | None = None, *, counts: TextCounts
    ) -> Examples:
        """Tokenise rows without targets; longer ones are cut, and counted, or become windows."""
        return self.tokenize(rows, tokenizer, max_length, counts=counts)

    def tokenize(
        self,
        rows: Sequence[Row],
        tokenizer: Tokenizer,
        max_length: int | None,
        targets: Tensor | None = None,
        num_skipped: int = 0,
        counts: TextCounts | None = None,
    ) -> Examples:
        """Rows as sequences of at most `max_length` tokens, or as windows; see `tokenize_rows` and `window_rows`."""
        if self.long is None:
            return tokenize_rows(rows, tokenizer, max_length, targets, num_skipped, counts)
        if self.long.both_orders:
            return rows_both_ways(rows, tokenizer, max_length, targets, num_skipped, counts)
        return window_rows(rows, tokenizer, max_length, self.long, targets, num_skipped, counts)

    def for_training(self, examples: Examples) -> Examples:
        """With at most as many windows of each row as training may read."""
        if self.long is None or not isinstance(examples, LongExamples):
            return examples
        return examples.thinned(self.long.max_windows)

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
        """Rows that are cut or become windows, and dev rows that all have one label."""
        found = []
        if isinstance(examples, LongExamples) and self.long is not None and not self.long.both_orders:
            found = window_remarks(examples, name, max_length)
        if examples.num_truncated and not found:
            are = "is" if examples.num_truncated == 1 else "are"
            rows = f"{examples.num_truncated:,} of {plural(len(examples), f'{name} row')}"
            found.append(f"{rows} {are} cut to {max_length} tokens.")
        labels = {row.label for row in examples.rows}
        if name == "dev" and len(labels) == 1:
            found.append(f"All dev rows have the label '{labels.pop()}', so the dev scores say little.")
        return found

    def counts(self, batch: Batch) -> dict[str, int]:
        """Rows of a batch."""
        return {self.name: len(batch.labels.get("windows", batch.lengths))}

    def pooled(self, logits: Tensor, batch: Batch) -> Tensor:
        """Logits of a batch's rows, float32 [rows, labels], from those of its sequences: float [sequences, labels]."""
        if self.long is None or "windows" not in batch.labels:
            return logits.float()
        return self.long.pooled(logits.float()[batch.labels["order"]], batch.labels["windows"].tolist())

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean loss over the rows of a batch with the label "sequence": a scalar with gradient."""
        return self.loss_of(self.pooled(model.logits(batch), batch), batch.labels["sequence"])

    def outcome(self, model: Model, batch: Batch) -> Outcome:
        """Summed loss and right answers of a batch with the label "sequence"."""
        logits, targets = self.pooled(model.logits(batch), batch), batch.labels["sequence"]
        counts = self.counts(batch)
        total = self.loss_of(logits, targets) * counts[self.name]
        correct = self.num_correct(logits.detach(), targets)
        return Outcome({self.name: total}, counts, {} if correct is None else {self.name: correct})

    def heard(self, model: Model, examples: Examples, batch_tokens: int | None) -> Tensor:
        """Logits of every sequence: float32 [rows, labels], or [windows, labels] where rows are read in windows."""
        device = next(model.parameters()).device
        if isinstance(examples, LongExamples):
            return examples.map(model.logits, device, batch_tokens)
        return map_batches(examples, model.logits, device=device, batch_tokens=batch_tokens)

    def outputs(self, model: Model, examples: Examples, batch_tokens: int | None) -> Tensor:
        """float32 [rows, labels]."""
        heard = self.heard(model, examples, batch_tokens)
        if self.long is None or not isinstance(examples, LongExamples):
            return heard
        return self.long.pooled(heard, examples.num_windows.tolist())

    def predict(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> list[dict[str, Any]]:
        """One answer for each row, as `decode` words it; of a row of several windows also which was the loudest.

        "loudest" is {"window" (from 0), "windows" (how many), "start", "end" (characters), "score"}, or, where several
        labels may apply, one of these for each label that was given.
        """
        if self.long is None or self.long.both_orders or not isinstance(examples, LongExamples) or len(examples) == 0:
            return super().predict(model, examples, batch_tokens)
        heard = self.in_evaluation(model, lambda: self.heard(model, examples, batch_tokens))  # [windows, labels]
        counts = examples.num_windows.tolist()
        answers = self.answers(self.long.pooled(heard, counts), examples)
        for start, own, answer in zip(examples.starts.tolist(), heard.split(counts), answers, strict=False):
            if len(own) == 1:
                continue
            found = {
                label: {
                    "window": window,
                    "windows": len(own),
                    "start": int(examples.spans[start + window, 0]),
                    "end": int(examples.spans[start + window, 1]),
                    "score": score,
                }
                for label, (window, score) in self.loudest(own, answer).items()
            }
            answer["loudest"] = found.get("", found)
        return answers

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
