"""Base class of fine-tuning tasks: examples, model head, loss, decoding and metrics.

The training loop, commands and reports use this interface. A new task is one subclass and one line in the registry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..core.errors import ConfigError, InputError, RowError
from ..core.registry import unknown_name
from ..data.batch import Batch
from ..objectives.outcome import LossSums
from ..text.tokenizers.encoding import TextCounts
from .data import Baseline, TaskData
from .evaluation.calibration import Decisions, Temperature, fit_temperature
from .evaluation.ensemble import mean_scores
from .evaluation.unscored import Unscored, named
from .rows.examples import Examples, Forward, SequenceLogits, compute, finite_only, stacked
from .rows.special_tokens import with_special_tokens

if TYPE_CHECKING:
    from ..models.model import Model
    from ..text.tokenizers.tokenizer import Tokenizer

Result = TypeVar("Result")


class AnyRow(Protocol):
    """A row: its text, a second text or None, the gold label or None, and its line and file."""

    @property
    def text(self) -> str: ...

    @property
    def text_pair(self) -> str | None: ...

    @property
    def label(self) -> Any: ...

    @property
    def line(self) -> int: ...

    @property
    def file(self) -> str: ...


class AnyTable(Protocol):
    """The result of reading a file: the valid rows, the errors of the skipped rows, and how many were skipped."""

    @property
    def rows(self) -> list[Any]: ...

    @property
    def skipped(self) -> list[RowError]: ...

    @property
    def num_skipped(self) -> int: ...


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on labeled rows.

    metrics: name -> fraction; logits: as returned by `Task.logits`, in row order; loss: mean over gold labels;
    signatures: metric name -> signature of the library that computed it.
    """

    metrics: dict[str, float]
    logits: Tensor
    loss: float
    signatures: dict[str, str] = field(default_factory=dict)


class Task(ABC):
    """A fine-tuning task.

    Attributes:
        name: name in the registry.
        head: model head that the task needs, None for the encoder without a head.
        main_metric: metric for early stopping and report headlines; higher is better.
        labels: names of the outputs, [] if they have none.
        temperature: divides logits before the softmax; None until fitted.
        adam: beta2 and epsilon of the optimizer.
        usage: command that uses a model, and its settings in addition to `model`.
        written: key of the generated text in a prediction, "" if the task generates none.
        can_abstain: whether `predict --min-confidence` supports the task.
        rating: `module:attribute` of the function that decomposes the main metric by row, "" if it cannot be.
        table: `module:attribute` of the function that shows a prediction as `tasks.table.TableRow`s.
        report: `module:attribute` of the TaskReport subclass, imported only to write a report.
    """

    name: ClassVar[str]
    head: str | None
    main_metric: str
    labels: list[str]
    temperature: Temperature | None = None
    adam: ClassVar[tuple[float, float]] = (0.999, 1e-6)
    usage: ClassVar[tuple[str, Mapping[str, Any]]] = ("predict", {"texts": ("your text",)})
    written: ClassVar[str] = ""
    can_abstain: ClassVar[bool] = False
    rating: ClassVar[str] = ""
    table: ClassVar[str] = "maskwright.tasks.table:label_rows"
    report: ClassVar[str] = "maskwright.tasks.report:TaskReport"

    @property
    @abstractmethod
    def num_labels(self) -> int:
        """Number of outputs of the head."""

    @property
    @abstractmethod
    def problem_type(self) -> str | None:
        """`problem_type` in config.json, as in transformers; None if transformers has no name for it."""

    # -- rows and examples -----------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def read(
        cls,
        path: Path | str,
        *,
        columns: Mapping[str, str] | None = None,
        skip_bad_rows: bool = False,
    ) -> AnyTable:
        """Reads labeled rows for training. Raises RowErrors listing every bad row unless `skip_bad_rows`."""

    def read_known(
        self, path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False
    ) -> AnyTable:
        """Reads labeled rows for scoring, where the possible labels are known; see `read`."""
        return self.read(path, columns=columns, skip_bad_rows=skip_bad_rows)

    def why_unscored(self, rows: Sequence[Any]) -> Unscored | None:
        """Returns why this model cannot be scored on these labeled rows, None if it can.

        rows: at least one, from `read_known` or `text.readers.tables.read_texts`.
        """
        return None

    @classmethod
    @abstractmethod
    def from_rows(cls, *rows: Any, **options: Any) -> Task:
        """Builds the task from training data: its labels and everything else that the data determine.

        Args:
            rows: training rows, then dev (validation) rows.
            options: `train_file` and `dev_file` (for messages), and those of its `TaskSpec.settings`.

        Raises:
            RowErrors: some dev labels are ones that the training rows do not have.
            InputError: the training rows cannot be learned from.
        """

    @property
    def deciding_metrics(self) -> tuple[str, ...]:
        """Metrics of `score` that can select the best epoch; higher is better."""
        return (self.main_metric,)

    def choose_by(self, metric: str) -> None:
        """Sets `main_metric`. Raises ConfigError unless it is one of `deciding_metrics`."""
        if metric not in self.deciding_metrics:
            raise ConfigError(unknown_name(f"metric of this {self.name} task", metric, self.deciding_metrics))
        self.main_metric = metric

    @classmethod
    def strata(cls, rows: Sequence[Any]) -> list[Collection[str]]:
        """Returns the labels of each row that held-out rows have in the same proportions. Default: none."""
        return [()] * len(rows)

    @classmethod
    def texts_apart(cls, rows: Sequence[Any]) -> list[tuple[str, str | None]]:
        """Returns the text and second text of each row that are never in training and held-out rows both."""
        return [(row.text, row.text_pair) for row in rows]

    @abstractmethod
    def examples(
        self,
        rows: Sequence[Any],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        *,
        file: str | None = None,
        skip_bad_rows: bool = False,
    ) -> Examples:
        """Tokenizes labeled rows to sequences of at most `max_length` tokens, with targets.

        file: source of the rows, for messages (default: each row's own file). Raises RowErrors listing every row whose
        label is unknown or invalid; with `skip_bad_rows` such rows are skipped and counted in `num_skipped`.
        """

    @abstractmethod
    def unlabeled(
        self, rows: Sequence[Any], tokenizer: Tokenizer, max_length: int | None = None, *, counts: TextCounts
    ) -> Examples:
        """Tokenizes rows without targets. counts: accumulates truncated and unknown tokens."""

    def facts(self, examples: Examples, name: str) -> list[str]:
        """Returns what was recognized in the rows called `name` ("train", "dev"), to print before the run."""
        return []

    def notes(self, examples: Examples, name: str, max_length: int) -> list[str]:
        """Returns warnings about the rows called `name` ("train", "dev") to log before the run."""
        return []

    @property
    def predicts(self) -> str:
        """What the model predicts, for messages: its labels if it has any."""
        return named(self.labels) if self.labels else self.name

    # -- training --------------------------------------------------------------------------------------------

    def extend_vocabulary(self, model: Model) -> Model:
        """Returns the model with the special tokens that the task needs, before the first step."""
        return with_special_tokens(model)

    def bind(self, model: Model) -> None:
        """Copies from the model what tokenizing rows of the task needs. Default: nothing."""
        return None

    def learns_from(self, rows: Sequence[Any]) -> Sequence[Any]:
        """Returns the training rows to learn from. Default: all."""
        return rows

    def for_training(self, examples: Examples) -> Examples:
        """Returns the examples without what training skips, such as surplus windows. Default: all of them."""
        return examples

    def prepare(self, model: Model, examples: Examples) -> Examples:
        """Returns the examples with features computed once before the first step. Default: unchanged."""
        return examples

    def row_probabilities(self, examples: Examples) -> np.ndarray | None:
        """Returns sampling probabilities, float64 [rows], summing to 1; None to draw each row once per epoch."""
        return None

    def init_from_counts(self, model: Model, examples: Examples) -> None:
        """Initializes a new head from statistics of the training targets. Default: nothing."""
        return None

    @abstractmethod
    def counts(self, batch: Batch) -> dict[str, int]:
        """Number of gold labels in a batch: {task name: count}."""

    @abstractmethod
    def outcome(self, model: Model, batch: Batch) -> LossSums:
        """Summed loss and number of correct predictions of a batch, under the task's name."""

    def baseline(self, data: TaskData) -> Baseline:
        """Returns the main metric of a trivial predictor on the dev examples. Default: 0."""
        return Baseline(0.0, "a constant")

    def tune_threshold(self, logits: Tensor, examples: Examples) -> None:
        """Tunes decision thresholds on the dev examples, after training. Default: nothing."""
        return None

    # -- calibration -----------------------------------------------------------------------------------------

    @property
    def has_one_class(self) -> bool:
        """Whether a prediction is one class, so that rows can be ranked by confidence."""
        return False

    def for_class(self, label: str) -> Task:
        """Returns the task that scores one class against all others. Raises InputError if it has none."""
        raise InputError(f"A {self.name} model does not predict text classes: remove --rare-class.")

    def decisions(self, logits: Tensor, examples: Examples) -> Decisions | None:
        """Class decisions with their gold classes, for calibration; None if the task has no classes."""
        return None

    def calibrate(self, logits: Tensor, examples: Examples) -> Temperature:
        """Fits and stores the temperature on labeled rows. Raises InputError if the task has no classes."""
        decisions = self.decisions(logits, examples)
        if decisions is None:
            raise InputError(f"A {self.name} model has no class probabilities to calibrate.")
        self.temperature = fit_temperature(decisions)
        return self.temperature

    # -- predictions -----------------------------------------------------------------------------------------

    def forward(self, model: Model) -> Forward | None:
        """Returns what the model computes for the sequences of the examples.

        None if answers are decoded token by token; then the task has its own `outputs` and `predict`.
        """
        return SequenceLogits(model)

    def compute(self, model: Model, examples: Examples, batch_tokens: int | None) -> list[Tensor]:
        """Runs the sequences of the examples, which are not empty: what `forward` returns, for each of them."""
        forward = self.forward(model)
        assert forward is not None, "a task that decodes has its own outputs"
        return compute(forward, examples, batch_tokens)

    def gather(self, outputs: Sequence[Tensor], model: Model, examples: Examples) -> Tensor:
        """Combines the outputs of all sequences of the examples, in order, to what `logits` returns."""
        return stacked(outputs)

    def finish(self, outputs: Sequence[Tensor], model: Model, examples: Examples) -> list[dict[str, Any]]:
        """Decodes one prediction per row from the outputs of all sequences; see `answers`.

        Raises InputError if any of them is not finite.
        """
        return self.answers(finite_only(self.gather(outputs, model, examples)), examples)

    def outputs(self, model: Model, examples: Examples, batch_tokens: int | None) -> Tensor:
        """Computes what `logits` returns; the model is in evaluation mode, `examples` is not empty."""
        return self.gather(self.compute(model, examples, batch_tokens), model, examples)

    @abstractmethod
    def answers(self, logits: Tensor, examples: Examples) -> list[dict[str, Any]]:
        """Decodes outputs to one JSON-serializable prediction per row."""

    @abstractmethod
    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        """Mean loss of each row: float32 [rows]."""

    @abstractmethod
    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """Metrics and loss of the outputs against the targets of the examples."""

    def confusion(self, logits: Tensor, targets: Tensor) -> list[list[int]] | None:
        """Number of rows by gold class (first index) and predicted class; None for tasks without single classes."""
        return None

    def class_pairs(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Gold and predicted class of a row, or of each of its words; [] for tasks without single classes."""
        return []

    @abstractmethod
    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        """Whether the prediction of a row is correct."""

    def logits(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> Tensor:
        """Runs the model in evaluation mode: float32 [rows, labels], or [words, labels] for token classification.

        Results are in row order. Raises InputError if any is not finite.
        """
        if len(examples) == 0:
            return torch.zeros(0, self.num_labels)
        return finite_only(self.in_evaluation(model, lambda: self.outputs(model, examples, batch_tokens)))

    def predict(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> list[dict[str, Any]]:
        """Runs the model on examples and decodes one prediction per row; see `answers`."""
        if len(examples) == 0 or self.forward(model) is None:
            return self.answers(self.logits(model, examples, batch_tokens), examples)
        outputs = self.in_evaluation(model, lambda: self.compute(model, examples, batch_tokens))
        return self.finish(outputs, model, examples)

    @staticmethod
    def in_evaluation(model: Model, run: Callable[[], Result]) -> Result:
        """Calls `run` with the model in evaluation mode."""
        if not model.training:
            return run()
        model.eval()
        try:
            return run()
        finally:
            model.train()

    def evaluate(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> Evaluation:
        """Runs the model on labeled examples and scores it."""
        if examples.targets is None or len(examples) == 0:
            raise InputError("Nothing to evaluate: pass labeled rows.")
        return self.score(self.logits(model, examples, batch_tokens), examples)

    def full_evaluation(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> Evaluation:
        """As `evaluate`, with metrics that are too slow for every epoch. Default: none."""
        return self.evaluate(model, examples, batch_tokens)

    def combine_predictions(self, logits: Sequence[Tensor], examples: Sequence[Examples]) -> Tensor:
        """Combines the outputs of several models on the same rows. Default: their mean.

        logits: for each model the result of `logits`, labels in the order of `self.labels`; examples: the rows as
        tokenized for each model. Raises InputError if they do not match.
        """
        return torch.from_numpy(mean_scores([part.numpy() for part in logits])).float()

    def joined(self, others: Sequence[Any]) -> Task:
        """Returns the task of an ensemble. others: tasks of the other models, with the same labels."""
        return self

    def on_equal_terms(self, other: Any) -> tuple[Task, Task]:
        """Returns this task and another one of its class with the same main metric. Raises InputError if they differ.

        Default: both unchanged.
        """
        return self, other

    # -- files -----------------------------------------------------------------------------------------------

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Serializes the task for maskwright.json; see `of_model.task_from_json`."""

    @classmethod
    @abstractmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Task:
        """Builds the task from the result of `to_json`. Raises ModelFolderError for invalid values."""
