"""Training, prediction, saving and loading, shared by the fine-tuned estimators."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..core import registry
from ..core.config import check, from_dict
from ..core.errors import InputError
from ..core.registry import unknown_name
from ..hub.adapters import attach_adapter
from ..hub.download import find_folder
from ..hub.folders import load_model, merged, read_facts, save_model
from ..hub.published import ENGLISH
from ..hub.recommended import recommended_lr
from ..inference.kinds import require
from ..inference.ready import compute_in, place, room_of
from ..models.build import build
from ..models.device import resolve_precision
from ..models.lora_config import LoraConfig
from ..models.model import Model, tokenizer_of
from ..tasks.base import Task, task_of_model
from ..tasks.examples import Examples
from ..train.finetuning.config import DEFAULT_EPOCHS, DEFAULT_LR, MIN_STEPS
from ..train.finetuning.finetune import fit, has_new_head
from ..train.schedules import Schedule
from ..train.settings import ADAPTER_LR

ModelSource = str | Path | Model
AdapterSettings = str | Mapping[str, Any] | None


DEFAULT_LENGTH = 128  # as `maskwright finetune`


class FineTuned(BaseEstimator):
    """Base class of the fine-tuned estimators.

    Args:
        model: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer, which is copied.
        epochs: Number of epochs; None for 3, on small data sets up to 10 until there are 100 steps.
        lr: Peak learning rate; None for the one that the model recommends, else 5e-5 (2e-3 with an adapter).
        learning_rate: Another name for `lr`; used if it is given.
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

    _ability = "text-logits"  # that a loaded model needs

    def __init__(
        self,
        model: ModelSource = ENGLISH,
        *,
        epochs: int | None = None,
        lr: float | None = None,
        learning_rate: float | None = None,
        batch_size: int = 32,
        max_length: int | None = None,
        freeze_encoder: bool = False,
        adapter: AdapterSettings = None,
        warmup: float = 0.1,
        weight_decay: float = 0.01,
        schedule: Schedule = "linear",
        accumulation: int = 1,
        random_state: int = 0,
        device: str = "auto",
        precision: str = "auto",
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.lr = lr
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_length = max_length
        self.freeze_encoder = freeze_encoder
        self.adapter = adapter
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.accumulation = accumulation
        self.random_state = random_state
        self.device = device
        self.precision = precision

    task_: Task

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
            check(
                not isinstance(self.model, Model), "adapter needs the name of its base: pass model as a folder or name."
            )
            attach_adapter(model, str(self.model), self._lora(), new, self.random_state, {})
        return place(model, self.device), is_new_head

    def _lr(self) -> float:
        """The learning rate: the given one, else the adapter's or the model's, else the default."""
        given = self.lr if self.learning_rate is None else self.learning_rate
        if given is not None:
            return given
        if self.adapter is not None:
            return ADAPTER_LR
        return (None if isinstance(self.model, Model) else recommended_lr(self.model)) or DEFAULT_LR

    def _lora(self) -> LoraConfig:
        """The settings of the adapter. Raises ConfigError."""
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
        for name in ("epochs", "batch_size", "max_length", "accumulation"):
            value = getattr(self, name)
            if value is None and name in ("max_length", "epochs"):
                continue
            check(
                isinstance(value, int | np.integer) and int(value) >= 1, f"{name} is {value!r}; it must be 1 or more."
            )
        schedules = registry.names("schedule")
        check(self.schedule in schedules, unknown_name("schedule", str(self.schedule), schedules))
        usual = inspect.signature(type(self).__init__).parameters["lr"].default
        check(
            self.learning_rate is None or self.lr in (usual, self.learning_rate),
            f"lr is {self.lr!r} and learning_rate is {self.learning_rate!r}; they are one setting: pass one of them.",
        )
        rate = "lr" if self.learning_rate is None else "learning_rate"
        for name, least in ((rate, "above 0"), ("warmup", "0 or more"), ("weight_decay", "0 or more")):
            value = getattr(self, name)
            if value is None and name == "lr":
                continue
            fits = isinstance(value, int | float | np.number) and bool(value > 0 if least == "above 0" else value >= 0)
            check(fits, f"{name} is {value!r}; it must be a number, {least}.")
        check(
            isinstance(self.random_state, int | np.integer),
            f"random_state is {self.random_state!r}; it must be an integer, the random seed.",
        )

    def _room(self, model: Model) -> int:
        """Tokens that a text may have."""
        most = min(DEFAULT_LENGTH, room_of(model))
        return most if self.max_length is None else room_of(model, int(self.max_length))

    def save(self, folder: str | Path) -> None:
        """Write a model folder that `load`, `maskwright predict` and transformers read."""
        check_is_fitted(self, "model_")
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name != "model"}
        facts = {
            **self.task_.to_json(),
            "max_length": self._room(self.model_),
            "estimator": {"name": type(self).__name__, "parameters": _plain(parameters), **self._own_facts()},
        }
        save_model(self.model_, folder, facts=facts)

    @classmethod
    def load(cls, folder: str | Path, *, untrained: bool = False, **parameters: Any) -> Self:
        """A fitted estimator from a model folder, also from one that `maskwright finetune` or transformers wrote.

        untrained: accept a head without stored weights; parameters: replace those stored, as in device="cpu". Raises
        ModelFolderError when its head is another one, or lacks its weights.
        """
        model, report = load_model(folder)
        require(model, str(folder), cls._ability)
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


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON keeps them; a dict of class weights by position is kept as text keys."""
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in parameters.items()
        if not isinstance(value, Mapping)
    }
