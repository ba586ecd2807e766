"""Training, prediction, saving and loading, shared by the fine-tuned estimators.

Estimators are dataclasses: their fields are the parameters that scikit-learn clones and searches.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ..core import registry
from ..core.config import check, from_dict
from ..core.errors import InputError
from ..core.progress import note, warn
from ..core.registry import unknown_name
from ..hub.adapters import attach_adapter
from ..hub.download import find_folder
from ..hub.folders import load_model, merged, read_facts, save_model
from ..hub.published import ENGLISH, recommended_lr
from ..inference.predict import Predictor
from ..inference.prepared import as_texts
from ..inference.ready import compute_in, place, require, room_of
from ..models.build import build
from ..models.device import resolve_precision
from ..models.lora_config import LoraConfig
from ..models.model import Model, tokenizer_of
from ..tasks.base import Task, task_of_model
from ..tasks.examples import Examples, rows_of
from ..tasks.windows import MAX_WINDOWS, LongTexts
from ..text.readers.inputs import PAIR_COLUMNS, Column, check_columns
from ..text.tokenizers.encoding import TextCounts
from ..train.finetuning.config import DEFAULT_EPOCHS, DEFAULT_LR, MIN_STEPS
from ..train.finetuning.finetune import fit, has_new_head
from ..train.schedules import Schedule
from ..train.settings import ADAPTER_LR

ModelSource = str | Path | Model
AdapterSettings = str | Mapping[str, Any] | None
DEFAULT_LENGTH = 128  # as `maskwright finetune`


def _with_shared(doc: str, bases: Sequence[type]) -> str:
    """A docstring whose Args and Attributes have those of the base classes too, where it does not name them."""
    text = inspect.cleandoc(doc)
    for base in bases:
        for head, entries in _sections(inspect.cleandoc(base.__dict__.get("__doc__") or "")).items():
            own = _sections(text).get(head, {})
            new = "".join(entry for name, entry in entries.items() if name not in own)
            if own and new:
                last = list(own.values())[-1].rstrip("\n")
                text = text.replace(last, f"{last}\n{new}".rstrip("\n"), 1)
            elif new:
                before, example, after = text.partition("\n\nExample:")
                text = f"{before}\n\n{head}:\n{new}".rstrip("\n") + example + after
    return text


def _sections(doc: str) -> dict[str, dict[str, str]]:
    """The entries of Args and Attributes by name, each with its lines."""
    found: dict[str, dict[str, str]] = {}
    for part in doc.split("\n\n"):
        head, _, body = part.partition("\n")
        if head not in ("Args:", "Attributes:"):
            continue
        entries: list[str] = []
        for line in body.splitlines():
            if line.startswith("    ") and not line.startswith("     "):
                entries.append("")
            entries[-1] += line + "\n"
        found[head[:-1]] = {entry.split(":")[0].strip(): entry for entry in entries}
    return found


class Estimator(BaseEstimator):
    """Base class: adds the parameters and attributes of base classes to the documentation of a class."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__doc__ = _with_shared(cls.__doc__ or "", cls.__mro__[1:])


@dataclass(eq=False, repr=False)
class FineTuned(Estimator):
    """Base class of the fine-tuned estimators.

    Args:
        model: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer, which is copied.
        epochs: Number of epochs; None for 3, on small data sets up to 10 until there are 100 steps.
        lr: Peak learning rate; None for the one that the model recommends, else 5e-5 (2e-3 with an adapter).
        learning_rate: Deprecated; use `lr`.
        batch_size: Batch size in examples.
        max_length: Maximum sequence length in tokens; None for 128, or the model's maximum if that is smaller.
        freeze_encoder: Train only the pooler and the head.
        adapter: "lora" to train a LoRA adapter and the head, or a dict of its settings (rank, alpha, targets,
            dropout). It needs a model by name; `save` writes an adapter folder.
        warmup: Warmup as a fraction of the steps.
        weight_decay: AdamW weight decay.
        schedule: Learning-rate schedule: "linear", "cosine", "constant" or "inverse_sqrt".
        accumulation: Gradient accumulation steps.
        random_state: Random seed.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16" or "fp16"; auto is bf16 where the hardware has it.

    Attributes:
        model_: The trained model.
        task_: Its task: labels, settings of predictions.
    """

    model: ModelSource = ENGLISH
    _: KW_ONLY
    epochs: int | None = None
    lr: float | None = None
    learning_rate: float | None = None
    batch_size: int = 32
    max_length: int | None = None
    freeze_encoder: bool = False
    adapter: AdapterSettings = None
    warmup: float = 0.1
    weight_decay: float = 0.01
    schedule: Schedule = "linear"
    accumulation: int = 1
    random_state: int = 0
    device: str = "auto"
    precision: str = "auto"

    ability: ClassVar[str] = "text-logits"  # that a loaded model needs
    task_: Any = field(init=False)

    def _train(self, model: Model, task: Task, examples: Examples, is_new_head: bool) -> None:
        """Train a model at its first step, and keep it."""
        compute_in(model, resolve_precision(self.precision, model.word_embeddings.device, training=True))
        examples = task.prepare(model, examples)
        if is_new_head:
            task.init_from_counts(model, examples)
        self.fit_result_ = fit(
            model,
            task,
            examples,
            epochs=DEFAULT_EPOCHS if self.epochs is None else self.epochs,
            min_steps=MIN_STEPS if self.epochs is None else 0,
            lr=self._lr(),
            batch_size=self.batch_size,
            seed=self.random_state,
            freeze_encoder=self.freeze_encoder,
            precision=self.precision,
            warmup_share=self.warmup,
            weight_decay=self.weight_decay,
            schedule=self.schedule,
            accumulation=self.accumulation,
        )
        self.model_, self.task_ = model, task

    def _start(self, task: Task) -> tuple[Model, bool]:
        """The model at its first step, and whether its head is new, drawn from random_state.

        That of a folder is kept where it fits the task; of a model in memory the encoder alone is copied.
        """
        labels, kind, is_new_head, new = task.labels or None, task.problem_type, True, []
        if isinstance(self.model, Model):
            check(self.adapter is None, "adapter needs the name of its base: pass model as a folder or name.")
            source = self.model if self.model.adapter is None else merged(copy.deepcopy(self.model))
            model = build(source.config, task.head, labels=labels, problem_type=kind, seed=self.random_state)
            model.encoder.load_state_dict(source.encoder.state_dict(), strict=False)  # a pooler it lacks stays new
            model.tokenizer = tokenizer_of(source)
        else:
            model, self.load_report_ = load_model(
                self.model, task.head, labels=labels, problem_type=kind, seed=self.random_state
            )
            tokenizer_of(model)
            is_new_head, new = has_new_head(self.load_report_), self.load_report_.new
        model = task.extend_vocabulary(model)
        if self.adapter is not None:
            attach_adapter(model, str(self.model), self._lora(), new, self.random_state, {})
        return place(model, self.device), is_new_head

    def _fit_rows(self, task: Task, rows: Sequence[Any]) -> None:
        """Train on labeled rows."""
        model, is_new_head = self._start(task)
        room = self._room(model)
        examples = task.examples(rows, tokenizer_of(model), room)
        for fact in task.facts(examples, "train"):
            note(fact)
        for remark in task.notes(examples, "train", room):
            warn(remark)
        self._train(model, task, task.for_training(examples), is_new_head)

    def _answers(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """The predictions for rows, with a warning of truncated ones."""
        predictor = self._predictor()
        answers = [answer for _, answer in predictor.stream(rows)]
        if predictor.counts.cut_texts:
            warn(predictor.counts.note())
        return answers

    def _lr(self) -> float:
        given = self.lr if self.learning_rate is None else self.learning_rate
        if given is not None:
            return given
        if self.adapter is not None:
            return ADAPTER_LR
        return (None if isinstance(self.model, Model) else recommended_lr(self.model)) or DEFAULT_LR

    def _lora(self) -> LoraConfig:
        check(
            self.adapter == "lora" or isinstance(self.adapter, Mapping),
            f"adapter is {self.adapter!r}; it must be 'lora', or a dict of rank, alpha, targets and dropout.",
        )
        check(not self.freeze_encoder, "adapter and freeze_encoder exclude each other.")
        return from_dict(LoraConfig, self.adapter if isinstance(self.adapter, Mapping) else {}, where="adapter")

    def _check(self) -> None:
        """Raise ConfigError for a parameter that is out of range."""
        if self.adapter is not None:
            self._lora()
        if self.learning_rate is not None:
            warn("learning_rate is deprecated: use lr.")
            unset = self.lr in (type(self).lr, self.learning_rate)
            check(unset, f"lr is {self.lr!r} and learning_rate {self.learning_rate!r}: pass lr alone.")
        for name in ("epochs", "batch_size", "max_length", "accumulation"):
            value = getattr(self, name)
            is_unset = value is None and name in ("max_length", "epochs")
            fits = is_unset or (isinstance(value, int | np.integer) and int(value) >= 1)
            check(fits, f"{name} is {value!r}; it must be 1 or more.")
        for name in ("lr", "learning_rate", "warmup", "weight_decay"):
            value, is_rate = getattr(self, name), name in ("lr", "learning_rate")
            fits = isinstance(value, int | float | np.number) and bool(value > 0 if is_rate else value >= 0)
            least = "above 0" if is_rate else "0 or more"
            check(fits or (value is None and is_rate), f"{name} is {value!r}; it must be a number, {least}.")
        schedules = registry.names("schedule")
        check(self.schedule in schedules, unknown_name("schedule", str(self.schedule), schedules))
        check(
            isinstance(self.random_state, int | np.integer),
            f"random_state is {self.random_state!r}; it must be an integer, the random seed.",
        )

    def _room(self, model: Model) -> int:
        """Tokens that a text may have."""
        most = min(DEFAULT_LENGTH, room_of(model))
        return most if self.max_length is None else room_of(model, int(self.max_length))

    def _predictor(self) -> Predictor:
        check_is_fitted(self, "model_")
        return Predictor(self.model_, self.task_, self._room(self.model_))

    def save(self, folder: str | Path) -> None:
        """Write a model folder that `load`, `maskwright predict` and transformers read."""
        check_is_fitted(self, "model_")
        parameters = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in self.get_params(deep=False).items()
            if name != "model" and not isinstance(value, Mapping)
        }
        facts = {
            **self.task_.to_json(),
            "max_length": self._room(self.model_),
            "estimator": {"name": type(self).__name__, "parameters": parameters, **self._own_facts()},
        }
        save_model(self.model_, folder, facts=facts)

    @classmethod
    def load(cls, folder: str | Path, *, untrained: bool = False, **parameters: Any) -> Self:
        """A fitted estimator from a model folder, also from one that `maskwright finetune` or transformers wrote.

        untrained: accept a head without stored weights; parameters: replace those stored, as in device="cpu". Raises
        ModelFolderError when its head is another one, or lacks its weights.
        """
        model, report = load_model(folder)
        require(model, str(folder), cls.ability)
        if not untrained:
            report.require_trained(folder)
        report.log_weight_mismatch(folder)
        facts = read_facts(find_folder(folder)[0])
        task = task_of_model(model, facts)
        stored = own_facts(facts).get("parameters")
        stored = stored if isinstance(stored, dict) else {}
        known = {name: value for name, value in stored.items() if name in cls._get_param_names()}
        length = {"max_length": facts["max_length"]} if isinstance(facts.get("max_length"), int) else {}
        estimator = cls(str(folder), **{**length, **cls._parameters_of(task), **known, **parameters})
        estimator.model_ = place(model, estimator.device, estimator.precision)
        estimator.task_ = task
        estimator._restore(facts)
        return estimator

    @classmethod
    def _parameters_of(cls, task: Task) -> dict[str, Any]:
        """Parameters that a stored task decides."""
        return {}

    def _own_facts(self) -> dict[str, Any]:
        return {}

    def _restore(self, facts: Mapping[str, Any]) -> None:
        return None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.target_tags.required = True
        return tags


@dataclass(eq=False, repr=False)
class WholeText(FineTuned):
    """Base class of the estimators with one prediction per text, pair of texts, or row of choices.

    Args:
        long: "cut" truncates longer texts; "windows" reads them in overlapping windows.
        stride: Overlap of neighboring windows in tokens; None for a third of `max_length`, at most 128.
        pool: How the logits of the windows are pooled: "mean" or "max".
        max_windows: Maximum number of windows of one text in training.
        columns: Columns of a data frame (names) or matrix (positions): the text, or both texts of a pair. None for
            `text` and `text_pair`.
    """

    _: KW_ONLY
    long: str = "cut"
    stride: int | None = None
    pool: str = "mean"
    max_windows: int = MAX_WINDOWS
    columns: Sequence[Column] | None = None

    roles: ClassVar[tuple[str, ...]] = PAIR_COLUMNS  # what `columns` names

    def _fit(self, texts: Sequence[Any], task: Any, targets: Sequence[Any]) -> None:
        """Train on texts with the targets of a task with one answer per text."""
        task.long = self._long()
        model, is_new_head = self._start(task)
        room = self._room(model)
        examples = task.tokenize(rows_of(texts), tokenizer_of(model), room, targets, TextCounts())
        examples = task.for_training(examples)
        if task.long is not None:
            for remark in task.notes(examples, "train", room):
                warn(remark)
        elif examples.num_truncated:
            warn(f"{examples.counts.note()} Raise max_length (now {room}) to keep them whole.")
        self._train(model, task, examples, is_new_head)

    def _logits(self, X: Any) -> Tensor:
        """float32 [texts, labels]."""
        predictor = self._predictor()
        logits = predictor.logits(as_texts(X, self.columns))
        if predictor.counts.cut_texts:
            warn(predictor.counts.note())
        return logits

    def _check(self) -> None:
        super()._check()
        self._long()
        check_columns(self.columns, self.roles)

    def _long(self) -> LongTexts | None:
        return LongTexts.of(self.long, self.stride, self.pool, self.max_windows)

    @classmethod
    def _parameters_of(cls, task: Task) -> dict[str, Any]:
        long: LongTexts | None = getattr(task, "long", None)
        return {} if long is None or long.both_orders else {"long": "windows", **long.to_json()}

    def _restore(self, facts: Mapping[str, Any]) -> None:
        """Let parameters that replace the stored ones hold at once."""
        if self.task_.long is None or not self.task_.long.both_orders:
            self.task_.long = self._long()


def own_facts(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """What an estimator wrote about itself into maskwright.json; {} for a folder that something else wrote."""
    found = facts.get("estimator")
    return found if isinstance(found, dict) else {}


def check_lengths(texts: Sequence[Any], targets: Sequence[Any] | np.ndarray) -> None:
    """Raise InputError unless there is one target for each text, and at least one text."""
    if len(texts) != len(targets):
        raise InputError(f"X has {len(texts)} texts and y has {len(targets)} entries: they must be as many.")
    if not len(texts):
        raise InputError("X is empty: at least one text is needed.")


def check_targets(targets: Any, what: str = "class", where: str = "y") -> None:
    """Raise InputError for missing targets: None, NaN, or the NA and NaT of pandas, whose comparisons are no bool."""
    values = targets.tolist() if hasattr(targets, "tolist") else list(targets)
    missing = [index for index, value in enumerate(values) if is_missing(value)]
    if missing:
        raise InputError(
            f"{where} has no {what} for item {missing[0]} ({len(missing)} in all, {values[missing[0]]!r}): remove such "
            "items."
        )


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas.NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))
