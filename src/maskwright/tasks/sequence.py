"""Base class of sequence-level tasks: one prediction for each text or pair of texts.

Texts longer than the maximum length are truncated, or split into windows whose logits are pooled (`long_texts`).
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError
from ..data.batch import Batch
from ..objectives.outcome import LossSums
from ..text.readers.tables import Row
from ..text.tokenizers.encoding import TextCounts
from .base import Evaluation, Rows, Targets, Task
from .examples import Examples, stacked, tokenize_rows
from .windows import LongExamples, rows_both_ways, window_notes, window_rows

if TYPE_CHECKING:
    from ..models.model import Model
    from ..text.tokenizers.tokenizer import Tokenizer

# -- The class of a classifier of pairs that says that the second text answers, follows from or equals the first ----

ENTAILMENT = "entailment"
# Names of positive and negative pairs in common data sets, as `plain_name` writes them.
TOGETHER = frozenset({
    ENTAILMENT, "relevant", "match", "duplicate", "paraphrase", "equivalent", "positive", "1", "yes", "true",
})  # fmt: skip
APART = frozenset({
    "contradiction", "neutral", "notentailment", "irrelevant", "notrelevant", "mismatch", "nomatch", "notduplicate",
    "notparaphrase", "notequivalent", "negative", "0", "no", "false",
})  # fmt: skip


def plain_name(label: str) -> str:
    """Returns a class name without case and separators: "Not Relevant" is "notrelevant"; a number by value."""
    text = label.strip().casefold()
    try:
        return f"{float(text):g}"
    except ValueError:
        return re.sub(r"[\s_\-]+", "", text)


def class_named(labels: Sequence[str], name: str) -> int | None:
    """Returns the index of the only class with this plain name, None without one."""
    found = [index for index, label in enumerate(labels) if plain_name(label) == name]
    return found[0] if len(found) == 1 else None


def relevant_class(labels: Sequence[str], declared: str | None = None) -> int | None:
    """Returns the index of the class of relevant pairs, None if neither the model folder (`declared`) nor the names say
    which.

    The only class is it; of two, the one with a name of TOGETHER, where a 1 needs a 0 or a -1 beside it; of more, the
    entailment.
    """
    if declared is not None:
        return list(labels).index(declared)
    if len(labels) != 2:
        return 0 if len(labels) == 1 else class_named(labels, ENTAILMENT)
    names = [plain_name(label) for label in labels]
    found = [index for index, name in enumerate(names) if name in TOGETHER]
    if len(found) != 1 or (names[found[0]] == "1" and names[1 - found[0]] not in ("0", "-1")):
        return None
    return found[0]


class SequenceTask(Task):
    """Predicts one label, set of labels or number for each text or pair. Its logits are float32 [rows, labels]."""

    @abstractmethod
    def target(self, label: str | None) -> Any:
        """The target of one row: a number or list of numbers. Raises ValueError with the reason if it is invalid."""

    @abstractmethod
    def as_targets(self, values: Sequence[Any]) -> Tensor:
        """Converts targets to the tensor that `loss_of` takes: [rows] or [rows, labels]."""

    @abstractmethod
    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Mean loss over rows, a scalar. logits: float32 [rows, labels]; targets [rows] or [rows, labels]."""

    @abstractmethod
    def decode(self, logits: Tensor) -> list[dict[str, Any]]:
        """Decodes logits float32 [rows, labels] to one JSON-serializable prediction per row."""

    @abstractmethod
    def metrics(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        """Metrics of logits float32 [rows, labels] against targets [rows] or [rows, labels]."""

    def top_window(self, window_logits: Tensor, answer: Mapping[str, Any]) -> dict[str, tuple[int, float]]:
        """Top-scoring window and its score for each predicted label of a row; {"": ...} for a single prediction.
        window_logits: float32 [windows, labels]. Default: that of the first label.
        """
        window = int(window_logits[:, 0].argmax())
        return {"": (window, float(window_logits[window, 0]))}

    def num_correct(self, logits: Tensor, targets: Tensor) -> Tensor | None:
        """Number of correct rows, an int scalar; None if predictions are not simply right or wrong."""
        return None

    def row_target(self, row: Row) -> Any:
        return self.target(row.label)

    def tokenize(
        self, rows: Rows, tokenizer: Tokenizer, max_length: int | None, targets: Targets, counts: TextCounts
    ) -> Examples:
        gold = None if targets is None else self.as_targets(targets)
        if self.long is None:
            return tokenize_rows(rows, tokenizer, max_length, gold, counts)
        if self.long.both_orders:
            return rows_both_ways(rows, tokenizer, max_length, gold, counts)
        return window_rows(rows, tokenizer, max_length, self.long, gold, counts)

    def notes(self, examples: Examples, name: str, max_length: int) -> list[str]:
        found = []
        if isinstance(examples, LongExamples) and self.long is not None and not self.long.both_orders:
            found = window_notes(examples, name, max_length)
        found = found or super().notes(examples, name, max_length)
        labels = {row.label for row in examples.rows}
        if name == "dev" and len(labels) == 1:
            found.append(f"All dev examples have the label '{labels.pop()}', so dev scores are not informative.")
        return found

    def counts(self, batch: Batch) -> dict[str, int]:
        return {self.name: len(batch.labels.get("windows", batch.lengths))}

    def pooled(self, logits: Tensor, batch: Batch) -> Tensor:
        """Pools logits of sequences, float [sequences, labels], to logits of rows, float32 [rows, labels]."""
        if self.long is None or "windows" not in batch.labels:
            return logits.float()
        return self.long.pooled(logits.float()[batch.labels["order"]], batch.labels["windows"].tolist())

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean loss over the rows of a batch with the label "sequence": a scalar with gradient."""
        return self.loss_of(self.pooled(model.logits(batch), batch), batch.labels["sequence"])

    def outcome(self, model: Model, batch: Batch) -> LossSums:
        logits, targets = self.pooled(model.logits(batch), batch), batch.labels["sequence"]
        counts = self.counts(batch)
        total = self.loss_of(logits, targets) * counts[self.name]
        correct = self.num_correct(logits.detach(), targets)
        return LossSums({self.name: total}, counts, {} if correct is None else {self.name: correct})

    def gather(self, outputs: Sequence[Tensor], model: Model, examples: Examples) -> Tensor:
        logits = stacked(outputs)
        if self.long is None or not isinstance(examples, LongExamples):
            return logits
        return self.long.pooled(logits, examples.num_windows.tolist())

    def finish(self, outputs: Sequence[Tensor], model: Model, examples: Examples) -> list[dict[str, Any]]:
        """Decodes one prediction per row; for a row with several windows "loudest" is `LongExamples.place` of the top
        one, or, with multiple labels, one for each predicted label.
        """
        answers = super().finish(outputs, model, examples)
        if self.long is None or self.long.both_orders or not isinstance(examples, LongExamples):
            return answers
        for row in np.flatnonzero(examples.num_windows > 1).tolist():
            own = stacked(outputs[examples.starts[row] : examples.starts[row + 1]])  # [windows, labels]
            tops = self.top_window(own, answers[row]).items()
            found = {label: examples.place(row, *top) for label, top in tops}
            answers[row]["loudest"] = found.get("", found)
        return answers

    def answers(self, logits: Tensor, examples: Examples) -> list[dict[str, Any]]:
        return self.decode(logits)

    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        targets = labeled(examples)
        return torch.stack([self.loss_of(logits[row : row + 1], targets[row : row + 1]) for row in range(len(logits))])

    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        targets = labeled(examples)
        return Evaluation(self.metrics(logits, targets), logits, float(self.loss_of(logits, targets)))

    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        """Whether the class, or each of several labels, is correct; always False for a number."""
        target = labeled(examples)[row]
        if "labels" in answer:
            chosen = set(answer["labels"])
            return all((label in chosen) == bool(value) for label, value in zip(self.labels, target, strict=True))
        return "label" in answer and self.labels[int(target)] == answer["label"]


def labeled(examples: Examples) -> Tensor:
    """The targets of examples, [rows] or [rows, labels]. Raises InputError for unlabeled examples."""
    if examples.targets is None:
        raise InputError("Unlabeled rows cannot be scored: pass labeled rows.")
    return examples.targets
