"""A task on whole sequences: how rows become examples, which head, loss, reading of logits, and metrics.

The training loop and the commands know only this page. A new task is one subclass and one line in the
registry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from ..core import registry
from ..core.errors import ConfigError, InputError, ModelFolderError, RowError, RowErrors
from ..data.batch import Batch
from ..objectives.outcome import Outcome
from ..text.tables import Row
from .examples import Examples, map_batches, tokenize_rows

if TYPE_CHECKING:
    from ..models.model import Model
    from ..text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Evaluation:
    """metrics: name -> fraction; logits: float32 [rows, labels] in the rows' order; loss: mean over rows."""

    metrics: dict[str, float]
    logits: Tensor
    loss: float


class SequenceTask(ABC):
    """One answer for each text or pair of texts.

    name: as in the registry; head: the model head it needs; main_metric: the one that early stopping watches
    and reports lead with (higher is better); labels: names of the outputs, [] for a regression.
    """

    name: ClassVar[str]
    head: ClassVar[str]
    main_metric: str
    labels: list[str]

    @property
    @abstractmethod
    def num_labels(self) -> int:
        """Outputs of the head."""

    @property
    @abstractmethod
    def problem_type(self) -> str:
        """What the model's config.json calls it, as transformers does."""

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
    def to_json(self) -> dict[str, Any]:
        """What `task_from_json` needs to build the same task."""

    @classmethod
    @abstractmethod
    def from_json(cls, facts: Mapping[str, Any]) -> SequenceTask:
        """The task of `to_json`. Raises ModelFolderError when the facts do not fit."""

    def examples(
        self,
        rows: Sequence[Row],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        *,
        file: str | None = None,
        skip_bad_rows: bool = False,
    ) -> Examples:
        """Tokenise labelled rows to at most `max_length` tokens.

        file: where the rows are from, for messages (None: as each row says). Raises RowErrors with every row whose
        label is unknown or unusable, unless `skip_bad_rows`: then they are left out and counted in `num_skipped`.
        """
        good, values = self.check(rows, file, skip_bad_rows=skip_bad_rows)
        if not good:
            raise InputError(f"{file or 'The data'} has no usable row: give at least one labelled text.")
        return tokenize_rows(good, tokenizer, max_length, self.as_targets(values), len(rows) - len(good))

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

    def prime(self, model: Model, examples: Examples) -> None:
        """Give a new head what the training targets say at once, before the first step. Nothing, for most tasks."""
        return None

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """Mean loss over the sequences of a batch with the label "sequence": a scalar with gradient."""
        return self.loss_of(model.logits(batch).float(), batch.labels["sequence"])

    def outcome(self, model: Model, batch: Batch) -> Outcome:
        """The same as sums for the training loop: one part under the task's name, with the right answers."""
        logits, targets = model.logits(batch).float(), batch.labels["sequence"]
        total = self.loss_of(logits, targets) * len(batch)
        correct = self.num_correct(logits.detach(), targets)
        return Outcome({self.name: total}, {self.name: len(batch)}, {} if correct is None else {self.name: correct})

    def num_correct(self, logits: Tensor, targets: Tensor) -> Tensor | None:
        """Rows answered right, an int scalar; None where an answer is not simply right or wrong."""
        return None

    def logits(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> Tensor:
        """The model's outputs without dropout: float32 [rows, labels] in the order of the rows.

        Raises InputError when they are not finite.
        """
        if len(examples) == 0:
            return torch.zeros(0, self.num_labels)
        was_training = model.training
        model.eval()
        try:
            device = next(model.parameters()).device
            logits = map_batches(examples, model.logits, device=device, batch_tokens=batch_tokens)
        finally:
            model.train(was_training)
        if not bool(torch.isfinite(logits).all()):
            raise InputError(
                "The model answers with numbers that are not finite: its weights are damaged, or the number "
                "format is too narrow for them; try --precision fp32."
            )
        return logits

    def evaluate(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> Evaluation:
        """Run the model over labelled examples and score it."""
        if examples.targets is None or len(examples) == 0:
            raise InputError("Nothing to evaluate: labelled rows are needed.")
        logits = self.logits(model, examples, batch_tokens)
        loss = float(self.loss_of(logits, examples.targets))
        return Evaluation(self.metrics(logits, examples.targets), logits, loss)


def task_of_model(model: Model, facts: Mapping[str, Any] | None = None) -> SequenceTask:
    """The task of a loaded model: from the facts of its maskwright.json, or from its head where there are
    none.

    Raises InputError when the model has no head for whole sequences, ModelFolderError for facts that do not fit it.
    """
    if facts and facts.get("task") in registry.names("task"):
        task = task_from_json(facts)
        if task.num_labels != model.num_labels:
            raise ModelFolderError(
                f"maskwright.json names {task.num_labels} outputs and the model has {model.num_labels}: "
                "they do not belong together."
            )
        return task
    if model.head_name not in ("classification", "regression"):
        raise InputError("This model has no head that answers for whole texts: fine-tune it first.")
    if model.head_name == "regression" or model.problem_type == "regression":
        return task_from_json({"task": "regression"})
    is_multi = model.problem_type == "multi_label_classification"
    return task_from_json({"task": "classification", "labels": list(model.labels), "multi_label": is_multi})


def task_from_json(facts: Mapping[str, Any]) -> SequenceTask:
    """The task that a model folder's maskwright.json describes: {"task": name, ...}.

    Raises ModelFolderError when it names no task that we know, or its facts do not fit.
    """
    name = facts.get("task")
    try:
        cls = registry.resolve("task", str(name))
    except ConfigError as error:
        raise ModelFolderError(f"The model's maskwright.json names a task that is not known here: {error}") from None
    task: SequenceTask = cls.from_json(facts)
    return task
