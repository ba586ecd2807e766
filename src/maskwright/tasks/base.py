"""A task: how rows become examples, which head, loss, reading of its outputs, and metrics.

The training loop, the commands and the report know only this page. Below it stand the kinds of task: one answer for a
whole text (`sequence.SequenceTask`), a tag for every word (`tagging.Tagging`), one text of several (`choice.Choice`).
A new task is one subclass and one line in the registry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from ..core import registry
from ..core.errors import ConfigError, InputError, ModelFolderError, RowError
from ..core.registry import unknown_name
from ..data.batch import Batch
from ..objectives.outcome import Outcome
from ..text.encoding import TextCounts
from .calibration import Decisions, Temperature, fit_temperature
from .ensemble import mean_scores
from .examples import Examples
from .frames import framed

if TYPE_CHECKING:
    from ..models.model import Model
    from ..text.tokenizer import Tokenizer


class AnyRow(Protocol):
    """What every row has: its text as shown to people, a second one or None, the gold answer or None, its place."""

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
    """What reading a file of rows gives: the good rows, the bad ones that were left out, and how many those are."""

    @property
    def rows(self) -> list[Any]: ...

    @property
    def skipped(self) -> list[RowError]: ...

    @property
    def num_skipped(self) -> int: ...


@dataclass(frozen=True)
class Evaluation:
    """metrics: name -> fraction; logits: as the task's `logits`, in the rows' order; loss: mean over gold answers;
    signatures: how another library computed a metric, by the metric's name.
    """

    metrics: dict[str, float]
    logits: Tensor
    loss: float
    signatures: dict[str, str] = field(default_factory=dict)


class Task(ABC):
    """What a fine-tuned model is asked.

    name: as in the registry; head: the model head it needs, or None for the bare encoder; settings: those of a
    fine-tuning recipe that `from_rows` takes; read_settings: those that `read` takes; main_metric: the one that early
    stopping watches and reports lead with (higher is better); labels: names of the outputs, [] where they have none;
    temperature: what logits are divided by before they become probabilities, None until it is fitted.
    """

    name: ClassVar[str]
    head: str | None
    settings: ClassVar[tuple[str, ...]] = ()
    read_settings: ClassVar[tuple[str, ...]] = ()
    main_metric: str
    labels: list[str]
    temperature: Temperature | None = None
    adam: ClassVar[tuple[float, float]] = (0.999, 1e-6)  # beta2 and epsilon of training

    @property
    @abstractmethod
    def num_labels(self) -> int:
        """Outputs of the head."""

    @property
    @abstractmethod
    def problem_type(self) -> str | None:
        """What the model's config.json calls it, as transformers does; None where it has no word for it."""

    # -- rows and examples -----------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def read(
        cls,
        path: Path | str,
        *,
        columns: Mapping[str, str] | None = None,
        multi_label: bool | None = None,
        skip_bad_rows: bool = False,
    ) -> AnyTable:
        """The labelled rows of a file, for training. Raises RowErrors with every bad row unless they are skipped."""

    def read_known(
        self, path: Path | str, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False
    ) -> AnyTable:
        """The same for scoring, when the answers that may occur are known."""
        return self.read(path, columns=columns, skip_bad_rows=skip_bad_rows)

    @classmethod
    @abstractmethod
    def from_rows(cls, *rows: Any, **options: Any) -> Task:
        """The task that these rows pose: labels and all else that training decides.

        rows: those to train on, then those of dev; options: `train_file` and `dev_file` for messages, and the
        `settings`. Raises RowErrors for dev rows whose
        answers training does not know, InputError where there is nothing to learn.
        """

    @property
    def deciding_metrics(self) -> tuple[str, ...]:
        """The metrics of `score` that may choose the best epoch; higher is better in each."""
        return (self.main_metric,)

    def choose_by(self, metric: str) -> None:
        """Let `metric` be the main one. Raises ConfigError when it is none of `deciding_metrics`."""
        if metric not in self.deciding_metrics:
            raise ConfigError(unknown_name(f"metric of this {self.name} task", metric, self.deciding_metrics))
        self.main_metric = metric

    @classmethod
    def strata(cls, rows: Sequence[Any]) -> list[str]:
        """The class of each row, by which rows are set aside evenly; all the same where there are no classes."""
        return [""] * len(rows)

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
        """Labelled rows as tokens with targets, at most `max_length` tokens in a sequence.

        file: where the rows are from, for messages (None: as each row says). Raises RowErrors with every row whose
        answer is unknown or unusable, unless `skip_bad_rows`: then they are left out and counted in `num_skipped`.
        """

    @abstractmethod
    def unlabelled(
        self, rows: Sequence[Any], tokenizer: Tokenizer, max_length: int | None = None, *, counts: TextCounts
    ) -> Examples:
        """Rows as tokens, without targets. counts: adds up what was cut or unknown."""

    def remarks(self, examples: Examples, name: str, max_length: int) -> list[str]:
        """What should be told about the rows called `name` ("train", "dev") before work begins."""
        return []

    # -- training --------------------------------------------------------------------------------------------

    freezes_encoder: ClassVar[bool] = False  # whether nothing but the head ever trains

    def adapt(self, model: Model) -> Model:
        """The model with what the task puts around its texts, before the first step; mostly as it is."""
        return framed(model)

    def meet(self, model: Model) -> None:
        """Take from the model what rows of the task need of it. Nothing, for most tasks."""
        return None

    def learns_from(self, rows: Sequence[Any]) -> Sequence[Any]:
        """The training rows that the model is shown: all, for most tasks."""
        return rows

    def for_training(self, examples: Examples) -> Examples:
        """Examples to learn from, with what training leaves out of them taken away. Nothing, for most tasks."""
        return examples

    def prepare(self, model: Model, examples: Examples) -> Examples:
        """The examples with what can be computed once before the first step. As they are, for most tasks."""
        return examples

    def row_chances(self, examples: Examples) -> np.ndarray | None:
        """How probable each row is to be drawn in training: float64 [rows], summing to 1; None for each once."""
        return None

    def prime(self, model: Model, examples: Examples) -> None:
        """Give a new head what the training targets say at once, before the first step. Nothing, for most tasks."""
        return None

    @abstractmethod
    def counts(self, batch: Batch) -> dict[str, int]:
        """How many gold answers a batch has, under the task's name."""

    @abstractmethod
    def outcome(self, model: Model, batch: Batch) -> Outcome:
        """Sums for the training loop: one part under the task's name, with the right answers."""

    def settle(self, logits: Tensor, examples: Examples) -> None:
        """Decide on the dev rows, after training, what belongs to the task and not to the model. Mostly nothing."""
        return None

    # -- calibration -----------------------------------------------------------------------------------------

    def decisions(self, logits: Tensor, examples: Examples) -> Decisions | None:
        """Every choice among classes with its gold one; None where answers are no such choices."""
        return None

    def calibrate(self, logits: Tensor, examples: Examples) -> Temperature:
        """Fit the temperature on labelled rows, and keep it. Raises InputError where there are no classes."""
        decisions = self.decisions(logits, examples)
        if decisions is None:
            raise InputError(
                f"A {self.name} model gives no probabilities of classes, so there is nothing to calibrate."
            )
        self.temperature = fit_temperature(decisions)
        return self.temperature

    # -- answers ---------------------------------------------------------------------------------------------

    @abstractmethod
    def outputs(self, model: Model, examples: Examples, batch_tokens: int | None) -> Tensor:
        """What `logits` gives; the model is in evaluation mode, and `examples` are not empty."""

    @abstractmethod
    def answers(self, logits: Tensor, examples: Examples) -> list[dict[str, Any]]:
        """Outputs as answers that can be written as JSON, one for each row."""

    @abstractmethod
    def losses(self, logits: Tensor, examples: Examples) -> Tensor:
        """The mean loss of each row: float32 [rows]."""

    @abstractmethod
    def score(self, logits: Tensor, examples: Examples) -> Evaluation:
        """Metrics and loss of outputs against the examples' targets."""

    @abstractmethod
    def is_right(self, examples: Examples, row: int, answer: Mapping[str, Any]) -> bool:
        """Whether the answer of a row is the gold one."""

    def logits(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> Tensor:
        """The model's outputs without dropout: float32 [rows, labels], or [words, labels] where words are judged.

        In the order of the rows. Raises InputError when they are not finite.
        """
        if len(examples) == 0:
            return torch.zeros(0, self.num_labels)
        return self.in_evaluation(model, lambda: self.outputs(model, examples, batch_tokens))

    def predict(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> list[dict[str, Any]]:
        """Run the model over examples: one answer for each row, as `answers` words it."""
        return self.answers(self.logits(model, examples, batch_tokens), examples)

    @staticmethod
    def in_evaluation(model: Model, run: Callable[[], Tensor]) -> Tensor:
        """What `run` gives while the model is in evaluation mode. Raises InputError when it is not finite."""
        was_training = model.training
        model.eval()
        try:
            logits = run()
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
        return self.score(self.logits(model, examples, batch_tokens), examples)

    def full_evaluation(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> Evaluation:
        """The same with what takes too long for every epoch. Nothing, for most tasks."""
        return self.evaluate(model, examples, batch_tokens)

    def unite(self, logits: Sequence[Tensor], examples: Sequence[Examples]) -> Tensor:
        """The outputs of several models on the same rows as those of one model; here their mean.

        logits: of each model, as the method `logits` gives them, labels in the order of `self.labels`; examples: the
        rows as each model read them. Raises InputError when they do not fit each other.
        """
        return torch.from_numpy(mean_scores([part.numpy() for part in logits])).float()

    def joined(self, others: Sequence[Any]) -> Task:
        """The task of this model and others together. others: of the same kind, with the same labels."""
        return self

    # -- files -----------------------------------------------------------------------------------------------

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """What `task_from_json` needs to build the same task."""

    @classmethod
    @abstractmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Task:
        """The task of `to_json`. Raises ModelFolderError when the facts do not fit."""


def task_of_model(model: Model, facts: Mapping[str, Any] | None = None) -> Task:
    """The task of a loaded model: from the facts of its maskwright.json, or from its head where there are
    none.

    Raises InputError when the model has no head that answers, ModelFolderError for facts that do not fit it.
    """
    task = _task_of_model(model, facts)
    task.meet(model)
    return task


def _task_of_model(model: Model, facts: Mapping[str, Any] | None) -> Task:
    if facts and facts.get("task") in registry.names("task"):
        task = task_from_json(facts)
        if task.num_labels != model.num_labels:
            raise ModelFolderError(
                f"maskwright.json names {task.num_labels} outputs and the model has {model.num_labels}: "
                "they do not belong together."
            )
        return task
    if model.head_name is None and model.sentence is not None:
        return task_from_json({"task": "similarity"})
    if model.head_name in ("tagging", "tagging-crf"):
        has_crf = model.head_name == "tagging-crf"
        return task_from_json({"task": "tagging", "labels": list(model.labels), "crf": has_crf})
    if model.head_name in ("qa", "choice", "anomaly", "seq2seq"):
        return task_from_json({"task": "translation" if model.head_name == "seq2seq" else model.head_name})
    if model.head_name not in ("classification", "regression"):
        raise InputError("This model has no head that answers for texts: fine-tune it first.")
    if model.head_name == "regression" or model.problem_type == "regression":
        return task_from_json({"task": "regression"})
    is_multi = model.problem_type == "multi_label_classification"
    return task_from_json({"task": "classification", "labels": list(model.labels), "multi_label": is_multi})


def task_from_json(facts: Mapping[str, Any]) -> Task:
    """The task that a model folder's maskwright.json describes: {"task": name, ...}.

    Raises ModelFolderError when it names no task that we know, or its facts do not fit.
    """
    name = facts.get("task")
    try:
        cls = registry.resolve("task", str(name))
    except ConfigError as error:
        raise ModelFolderError(f"The model's maskwright.json names a task that is not known here: {error}") from None
    task: Task = cls.from_json(facts)
    return task
