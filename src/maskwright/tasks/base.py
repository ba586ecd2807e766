"""Base class of fine-tuning tasks: examples, model head, loss, decoding and metrics.

The training loop, commands and reports use this interface. A new task is one subclass and one line in the registry.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..core import registry
from ..core.config import check, default_of, from_dict
from ..core.errors import ConfigError, InputError, ModelFolderError, RowError, RowErrors
from ..core.registry import unknown_name
from ..core.util import on_one_line, plural
from ..data.batch import Batch
from ..models.build import with_tokenizer
from ..models.model import Model
from ..objectives.outcome import LossSums
from ..text.formats.cells import number_error
from ..text.readers.tables import FoundRows
from ..text.tokenizers.encoding import TextCounts
from .evaluation.calibration import Decisions, Temperature, fit_temperature
from .evaluation.compare import ScoredPredictions
from .evaluation.metrics import mean_scores
from .evaluation.rare import RareClass, Threshold
from .examples import Examples, Forward, SequenceLogits, compute, finite_only, stacked
from .specs import readers_of, spec_of
from .windows import LongTexts

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer

# [START] A [EXTRACT], or [START] A [DELIM] B [EXTRACT], where the head reads the last token, for a causal model
# whose tokenizer has no template with [CLS] and [SEP], such as GPT-2's (Radford et al. 2018, figure 1).
START, DELIM, EXTRACT = "[START]", "[DELIM]", "[EXTRACT]"


# -- The data of a fine-tuning run, as the baseline and the report of its task read them ----------------------------


class Baseline(NamedTuple):
    """The main metric of a trivial predictor on the dev examples.

    predictor: what it predicts, for messages; is_untrained: whether it is the model before training.
    """

    score: float
    predictor: str
    is_untrained: bool = False


MOST_NAMED = 6  # labels listed in a message


class Unscored(NamedTuple):
    """Why a model cannot be scored on rows. reason: verb phrase about their file; task: task that fits the rows, None
    for rows without labels.
    """

    reason: str
    task: str | None

    @classmethod
    def of_labels(cls, labels: Collection[str], reason: str = "contains") -> Unscored:
        """The reason for labels that the model never predicts. reason: verb before the labels."""
        are_numbers = all(number_error(label) is None for label in labels)
        has_fractions = are_numbers and any(not float(label).is_integer() for label in labels)
        task = "regression" if has_fractions else "classification"
        return cls(f"{reason} the labels {named(sorted(labels))}", task)


def named(labels: Sequence[str]) -> str:
    """The first MOST_NAMED labels as a comma-separated list."""
    return ", ".join(label[:40] for label in labels[:MOST_NAMED]) + (", ..." if len(labels) > MOST_NAMED else "")


@dataclass(frozen=True)
class TaskData:
    """Labeled rows of a task, `max_length` tokens at most, and the examples made of them.

    first_model: builds the model as before training; saved_model: loads the trained model, on its device and in its
    precision, or returns None if a run has not one.
    """

    task: Any
    train_rows: list[Any]
    dev_rows: list[Any]
    train: Examples
    dev: Examples
    max_length: int
    first_model: Callable[[], Model] = field(repr=False)
    saved_model: Callable[[], Model | None] = field(default=lambda: None, repr=False)

    def untrained(self) -> Baseline:
        found = self.task.evaluate(self.first_model(), self.dev).metrics
        return Baseline(found[self.task.main_metric], "the model before training", is_untrained=True)


Result = TypeVar("Result")
ColumnNames = Mapping[str, str] | None  # role -> column
Rows = Sequence[Any]
Targets = Sequence[Any] | None  # of rows; None for unlabeled ones


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
        labels: names of the outputs, empty if they have none.
        temperature: divides logits before the softmax; None until fitted.
        long: window settings for long texts; None to truncate them.
        adam: beta2 and epsilon of the optimizer.
        usage: command that uses a model, and its settings in addition to `model`.
        written: key of the generated text in a prediction, "" if the task generates none.
        can_abstain: whether `predict --min-confidence` supports the task.
        epoch: epochs of training so far, which the training loop sets; infinite after it.
        report: `module:attribute` of the TaskReport subclass, imported only to write a report.
    """

    name: ClassVar[str]
    head: str | None
    main_metric: str
    labels: Sequence[str] = ()
    temperature: Temperature | None = None
    long: LongTexts | None = None
    adam: ClassVar[tuple[float, float]] = (0.999, 1e-6)
    usage: ClassVar[tuple[str, Mapping[str, Any]]] = ("predict", {"texts": ("your text",)})
    written: ClassVar[str] = ""
    can_abstain: ClassVar[bool] = False
    epoch = math.inf
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
    def read(cls, path: Path | str, *, columns: ColumnNames = None, skip_bad_rows: bool = False) -> FoundRows:
        """Reads labeled rows for training; it also takes the settings of `TaskSpec.read_settings`. Raises RowErrors
        listing every bad row unless `skip_bad_rows`. Default: as the first reader of the task.
        """
        found: FoundRows = readers_of(cls.name)[0].read(Path(path), columns or {}, skip_bad_rows, True)
        return found

    def read_known(self, path: Path | str, *, columns: ColumnNames = None, skip_bad_rows: bool = False) -> FoundRows:
        """Reads labeled rows for scoring, where the possible labels are known, with the settings of training."""
        settings = {name: getattr(self, name) for name in spec_of(self.name).read_settings}
        return self.read(path, columns=columns, skip_bad_rows=skip_bad_rows, **settings)

    def why_unscored(self, rows: Sequence[Any]) -> Unscored | None:
        """Returns why this model cannot be scored on these labeled rows, at least one; None if it can."""
        return None

    @classmethod
    @abstractmethod
    def from_rows(cls, *rows: Any, **options: Any) -> Task:
        """Builds the task from training rows, then dev rows: its labels and everything else that the data determine.

        options: `train_file` and `dev_file` (for messages), and the settings of the task (`TaskSettings`). Labels of
        single rows are checked by `examples`. Raises InputError for training rows that cannot be learned from.
        """

    @property
    def deciding_metrics(self) -> tuple[str, ...]:
        """Metrics of `score` that can select the best epoch; higher is better."""
        return (self.main_metric,)

    def choose_by(self, metric: str) -> None:
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

    def row_target(self, row: Any) -> Any:
        """The target of a row. Raises ValueError with the reason for an unknown, invalid or missing label."""
        raise NotImplementedError

    def read_labels(
        self,
        rows: Rows,
        file: str | None = None,
        skip_bad_rows: bool = False,
        target: Callable[[Any], Any] | None = None,
    ) -> tuple[list[Any], Any]:
        """Returns the rows with a valid label, and their targets, as `tokenize` takes them.

        target: row -> its target (default: `row_target`). Raises RowErrors for the other rows unless `skip_bad_rows`,
        and InputError if none is left.
        """
        good, values, bad = [], [], []
        for row in rows:
            try:
                values.append((target or self.row_target)(row))
            except ValueError as error:
                bad.append(RowError(file or row.file, row.line, "label", str(error)))
            else:
                good.append(row)
        if bad and not skip_bad_rows:
            raise RowErrors(bad)
        if not good:
            raise InputError(f"{file or 'The data'} has no usable row: pass at least one with a label.")
        return good, values

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
        good, targets = self.read_labels(rows, file, skip_bad_rows)
        found = self.tokenize(good, tokenizer, max_length, targets, TextCounts())
        return replace(found, num_skipped=len(rows) - len(good))

    def unlabeled(
        self, rows: Sequence[Any], tokenizer: Tokenizer, max_length: int | None = None, *, counts: TextCounts
    ) -> Examples:
        """Tokenizes rows without targets. counts: accumulates truncated and unknown tokens."""
        return self.tokenize(rows, tokenizer, max_length, None, counts)

    def tokenize(
        self, rows: Rows, tokenizer: Tokenizer, max_length: int | None, targets: Targets, counts: TextCounts
    ) -> Examples:
        """Tokenizes rows, with the results of `row_target` if they are labeled."""
        raise NotImplementedError

    def facts(self, examples: Examples, name: str) -> list[str]:
        """Returns what was recognized in the rows called `name` ("train", "dev"), to print before the run."""
        return []

    def notes(self, examples: Examples, name: str, max_length: int) -> list[str]:
        """Returns warnings about the rows called `name` ("train", "dev") to log. Default: how many are truncated."""
        return truncation_notes(examples.num_truncated, len(examples), f"{name} row", max_length)

    @property
    def predicts(self) -> str:
        """What the model predicts, for messages: its labels if it has any."""
        return named(self.labels) if self.labels else self.name

    # -- training --------------------------------------------------------------------------------------------

    def extend_vocabulary(self, model: Model) -> Model:
        """Returns the model with the special tokens that the task needs, before the first step.

        Default: those of a model that pools the last token, if its tokenizer adds no special tokens.
        """
        tokenizer = model.tokenizer
        if tokenizer is None or not model.config.pools_last_token or tokenizer.opening_ids:
            return model
        return with_tokenizer(model, tokenizer.with_template(START, DELIM, EXTRACT))

    def bind(self, model: Model) -> None:
        """Copies from the model what tokenizing rows of the task needs. Default: nothing."""
        return None

    def learns_from(self, rows: Sequence[Any]) -> Sequence[Any]:
        """Returns the training rows to learn from. Default: all."""
        return rows

    def for_training(self, examples: Examples) -> Examples:
        """Returns the examples without what training skips: windows beyond `max_windows` of a row."""
        return examples if self.long is None else examples.limit_windows(self.long.max_windows)

    def prepare(self, model: Model, examples: Examples) -> Examples:
        return examples

    def row_probabilities(self, examples: Examples) -> np.ndarray | None:
        """Returns sampling probabilities, float64 [rows], summing to 1; None to draw each row once per epoch."""
        return None

    def row_groups(self, examples: Examples) -> np.ndarray | None:
        """Returns the group of each row, int64 [rows] from 0; those of a group are drawn together. Default: None."""
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
        """Returns what the model computes for each sequence; None if `predict` decodes token by token."""
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
        """Decodes one prediction per row from the outputs of all sequences. Raises InputError if one is not finite."""
        return self.answers(finite_only(self.gather(outputs, model, examples)), examples)

    def outputs(self, model: Model, examples: Examples, batch_tokens: int | None) -> Tensor:
        """Computes what `logits` returns; the model is in evaluation mode, `examples` is not empty."""
        return self.gather(self.compute(model, examples, batch_tokens), model, examples)

    @abstractmethod
    def answers(self, logits: Tensor, examples: Examples) -> list[dict[str, Any]]:
        """Decodes outputs to one JSON-serializable prediction per row."""

    def table_rows(self, answer: Mapping[str, Any]) -> list[TableRow]:
        """Shows a prediction as rows of a table. Default: its label, score or text."""
        return label_rows(answer, self.written)

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
        """Runs the model in evaluation mode: float32 [rows, labels], or [words, labels] for token classification, in
        row order. Raises InputError if any is not finite.
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

    def rate(self, logits: Tensor, examples: Examples) -> ScoredPredictions:
        """Decomposes the main metric by row, to compare models. Raises InputError for a task without such a metric."""
        raise InputError(f"Models for {self.name} cannot be compared row by row.")

    def on_equal_terms(self, other: Any) -> tuple[Task, Task]:
        """Returns this task and another of its class with one main metric. Raises InputError if they differ."""
        return self, other

    # -- files -----------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Serializes the fields of the task for maskwright.json, without those that are None by default and now."""
        found = {one.name: (getattr(self, one.name), default_of(one)) for one in fields(self)}  # type: ignore[arg-type]
        kept = {name: value for name, (value, usual) in found.items() if (value, usual) != (None, None)}
        return {"task": self.name} | {
            name: value.to_json() if hasattr(value, "to_json") else list(value) if isinstance(value, tuple) else value
            for name, value in kept.items()
        }

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Task:
        """Builds the task from the result of `to_json`. Raises ModelFolderError for invalid values."""
        own = {one.name: facts[one.name] for one in fields(cls) if one.name in facts}  # type: ignore[arg-type]
        try:
            for name, kind in STORED.items():
                if own.get(name) is not None:
                    check(isinstance(own[name], Mapping), f"'{name}' is not an object.")
                    own[name] = kind.from_json(own[name])
            task: Task = from_dict(cls, own, "maskwright.json")  # type: ignore[type-var]  # subclasses are dataclasses
        except (ConfigError, InputError) as error:
            raise ModelFolderError(f"maskwright.json does not describe a model for {cls.name}: {error}") from None
        return task


def truncation_notes(num_truncated: int, total: int, noun: str, max_length: int) -> list[str]:
    """Returns a warning about truncated texts, none without any. noun: what they are, in the singular."""
    if not num_truncated:
        return []
    are = "is" if num_truncated == 1 else "are"
    return [f"{num_truncated:,} of {plural(total, noun)} {are} truncated to {max_length} tokens."]


def require_rows(rows: Rows, file: str | None, what: str) -> None:
    """Raises InputError for training data without rows. what: kind of rows to pass."""
    if not rows:
        raise InputError(f"{file or 'The training data'} has no rows: pass {what}.")


STORED: Mapping[str, Any] = {"long": LongTexts, "temperature": Temperature, "threshold": Threshold, "rare": RareClass}


# -- Predictions as rows of a table, which `maskwright predict` prints ----------------------------------------------


class TableRow(NamedTuple):
    """One row. what: part of the text that it is about, "" in the first row; score: None if there is none."""

    what: str
    result: str
    score: float | None


def label_rows(answer: Mapping[str, Any], written: str = "") -> list[TableRow]:
    """Returns the rows of a label, of several labels, of a score, or of a text that was generated.

    written: key of the generated text, "" if there is none. Further rows name the top-scoring window of a long text.
    """
    if written:
        return [TableRow("", on_one_line(answer[written]), answer["score"])]
    if answer.get("is_rare") is not None:
        label = "rare" if answer["is_rare"] else "normal"
    else:
        label = answer.get("label", ", ".join(answer.get("labels") or [])) or ("-" if "labels" in answer else "")
    label = "(abstained)" if answer.get("abstained") else label
    return [TableRow("", label, answer.get("score")), *window_rows(answer)]


def window_rows(answer: Mapping[str, Any]) -> list[TableRow]:
    """Returns the top-scoring window of a long text, one row per predicted label."""
    found = answer.get("loudest", {})
    return [
        TableRow(
            f"window {place['window'] + 1} of {place['windows']}, characters {place['start']}-{place['end']}",
            label,
            place["score"],
        )
        for label, place in ({"": found} if "window" in found else found).items()
    ]


# -- The task of a loaded model -------------------------------------------------------------------------------------


def task_of_model(model: Model, facts: Mapping[str, Any] | None = None) -> Task:
    """Returns the task of a loaded model: from its maskwright.json, otherwise from its head.

    Raises InputError if the model has no task head, ModelFolderError if maskwright.json does not match the model.
    """
    facts, head, labels = facts or {}, model.head_name, list(model.labels)
    is_stored = facts.get("task") in registry.names("task")
    if is_stored:
        own: Mapping[str, Any] = facts
    elif head is None and model.sentence is not None and model.sentence.late is None:
        own = {"task": "similarity"}
    elif head in ("tagging", "tagging-crf"):
        own = {"task": "tagging", "labels": labels, "crf": head == "tagging-crf"}
    elif head in ("qa", "choice", "anomaly", "seq2seq"):
        own = {"task": "translation" if head == "seq2seq" else head}
    elif head == "regression" or (head == "classification" and model.problem_type == "regression"):
        own = {"task": "regression"}
    elif head == "classification":
        is_multi = model.problem_type == "multi_label_classification"
        own = {"task": head, "labels": labels, "multi_label": is_multi, "relevant": facts.get("relevant")}
    else:
        raise InputError("This model has no task head: fine-tune it first.")
    task = task_from_json(own)
    if is_stored and task.num_labels != model.num_labels:
        raise ModelFolderError(
            f"maskwright.json has {task.num_labels} outputs and the model has {model.num_labels}: "
            "they do not belong together."
        )
    task.bind(model)
    return task


def task_from_json(facts: Mapping[str, Any]) -> Task:
    """Builds the task described by a maskwright.json: {"task": name, ...}.

    Raises ModelFolderError for an unknown task or invalid values.
    """
    name = facts.get("task")
    try:
        cls = registry.resolve("task", str(name))
    except ConfigError as error:
        raise ModelFolderError(f"The model's maskwright.json has an unknown task: {error}") from None
    task: Task = cls.from_json(facts)
    return task
