"""What is known of a task before it is imported: its settings, the files that it reads, the models that it makes.

This module imports no torch, because `--help` reads it. A task of another package declares its `TaskSpec` as `SPEC` in
a module `spec` beside that of the task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_type_hints

from ..core import registry
from ..core.config import LONG_TEXTS, TASK, check, option, redeclare
from ..core.errors import ConfigError, InputError

if TYPE_CHECKING:
    from ..text.readers.tables import Reader

Config = TypeVar("Config")


@dataclass(frozen=True)
class ModelKind:
    """A kind of model by its head: what messages call it, with its article, and the commands that support it.

    abilities: what it can do, as in "classify", "tag" or "generate"; routes, pages and functions ask for these; title:
    name in model lists, "" for the head.
    """

    head: str | None
    description: str
    commands: str
    abilities: frozenset[str] = frozenset()
    title: str = ""

    @property
    def name(self) -> str | None:
        return self.title or self.head

    def can(self, *abilities: str) -> bool:
        """Whether it has one of the abilities."""
        return not self.abilities.isdisjoint(abilities)


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """Facts about a task.

    Attributes:
        title: name of the task in forms, "" for its name in the registry.
        networks: kinds of models that it is trained from: encoder, causal, encoder-decoder.
        settings: of a task of another package, a dataclass of `core.config.option` fields, which checks them; its
            values are passed to `Task.from_rows`. Those of the other tasks are in `TaskSettings`.
        read_settings: settings that are also passed to `Task.read`.
        defaults: of a task of another package, its defaults of settings that are None in FinetuneConfig.
        reads: names of the readers (`core.registry`, kind "reader") of the files that it is trained on.
        has_classes: whether labels are a few classes.
        has_numbers: whether labels are numbers.
        long_texts: how it reads long texts, if it has no settings for them, as in "truncates long texts".
        freezes_encoder: whether only the head is trained.
        has_head: whether the model has a head.
        follows: pre-training objectives whose models are usually fine-tuned for this task.
        kinds: kinds of models that it makes.
        encoders: kinds of encoders of pairs that it can train, with the task that trains each.
    """

    title: str = ""
    networks: tuple[str, ...] = ("encoder", "causal")
    settings: type | None = None
    read_settings: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    reads: tuple[str, ...] = ("texts",)
    has_classes: bool = False
    has_numbers: bool = False
    long_texts: str = ""
    freezes_encoder: bool = False
    has_head: bool = True
    follows: tuple[str, ...] = ()
    kinds: tuple[ModelKind, ...] = ()
    encoders: Mapping[str, str] = field(default_factory=dict)


def _kind(head: str | None, description: str, commands: str, *abilities: str, title: str = "") -> ModelKind:
    return ModelKind(head, description, commands, frozenset({"predict", *abilities}), title)


USES = "predict, evaluate or embed"
SPARSITY = (5e-5, 3e-5)
ENCODERS = {"dense": "similarity", "sparse": "similarity", "cross": "regression"}
SPECS = {
    "classification": TaskSpec(
        title="Classification of texts or pairs",
        read_settings=("multi_label",),
        reads=("texts", "trees"),
        has_classes=True,
        kinds=(_kind("classification", "a classifier", USES, "classify", "text-logits", "classes"),),
    ),
    "regression": TaskSpec(
        title="Regression of texts or pairs",
        read_settings=("score_range", "encoder"),
        has_numbers=True,
        encoders=ENCODERS,
        kinds=(_kind("regression", "a regression model", USES, "classify", "text-logits", "numbers"),),
    ),
    "tagging": TaskSpec(
        title="Token classification (CoNLL)",
        reads=("tagged",),
        has_classes=True,
        follows=("bilm",),
        long_texts="always reads long texts in windows",
        kinds=(
            _kind("tagging", "a token classification model", USES, "tag"),
            _kind("tagging-crf", "a token classification model with a CRF", USES, "tag"),
        ),
    ),
    "qa": TaskSpec(
        title="Question answering (SQuAD)",
        reads=("questions",),
        long_texts="always reads long texts in windows",
        kinds=(_kind("qa", "a question-answering model", f"answer, {USES}", "answer"),),
    ),
    "anomaly": TaskSpec(
        title="Anomaly detection",
        freezes_encoder=True,
        has_classes=True,
        kinds=(_kind("anomaly", "an anomaly detector", USES, "classify", "detect-anomalies"),),
    ),
    "choice": TaskSpec(
        title="Multiple choice (SWAG)",
        reads=("choices",),
        kinds=(_kind("choice", "a multiple-choice model", USES, "choose"),),
    ),
    "similarity": TaskSpec(
        title="Sentence embeddings (pairs)",
        read_settings=("score_range",),
        has_numbers=True,
        has_head=False,
        encoders=ENCODERS,
        kinds=(
            _kind(
                None,
                "a sentence encoder",
                "similarity, search, cluster, embed, evaluate, predict or finetune",
                *("embed", "compare"),
                title="sentence",
            ),
            _kind(
                "mlm",
                "a sparse sentence encoder (SPLADE)",
                "embed --sparse, evaluate, predict, fill-mask or finetune",
                *("embed", "fill-mask"),
                title="sparse",
            ),
        ),
    ),
    "translation": TaskSpec(
        title="Translation",
        networks=("encoder-decoder",),
        follows=("denoise",),
        long_texts="truncates long texts",
        kinds=(
            _kind("seq2seq", "a translation model", f"translate, {USES.replace(' or', ',')} or finetune", "translate"),
        ),
    ),
    "generation": TaskSpec(
        title="Text-to-text generation",
        networks=("causal",),
        long_texts="truncates long texts",
        kinds=(
            _kind(
                "clm", "a text-to-text model", "predict, evaluate, generate or finetune", "generate", title="generation"
            ),
        ),
    ),
}
_LONG: dict[str, Any] = {
    "panel": LONG_TEXTS,
    "tasks": ("classification", "regression", "anomaly", "choice", "similarity"),
}
_RARE: dict[str, Any] = {"panel": TASK, "recipe_only": True}
_CLASSES = ("classification",)


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """The settings of FinetuneConfig that are passed to the task; `tasks` are those that have a setting."""

    long: Literal["cut", "windows"] = option(
        "cut", "Truncate longer texts, or read them in overlapping windows.", **_LONG
    )
    stride: int | None = option(
        None,
        "Tokens that neighboring windows share.",
        default_help="a third of --max-length, at most 128 tokens",
        recipe_only=True,
        **_LONG,
    )
    pool: Literal["mean", "max"] = option(
        "mean", "How the logits of the windows are pooled.", recipe_only=True, **_LONG
    )
    max_windows: int = option(
        32, "Maximum windows per text in training, spread evenly over longer ones.", recipe_only=True, **_LONG
    )
    both_orders: bool = option(
        False,
        "Read each pair as A B and as B A and pool their logits.",
        tasks=("classification", "regression"),
        **_RARE,
    )
    class_weight: Literal["balanced"] | None = option(
        None, "Weight the loss of each class by its inverse frequency.", panel=TASK, tasks=_CLASSES
    )
    multi_label: bool | None = option(
        None, "Rows have several labels, a|b, or none.", default_help="as the data has it", panel=TASK, tasks=_CLASSES
    )
    focal: float | None = option(
        None, "Gamma of the focal loss, such as 2.", default_help="none: cross-entropy", tasks=_CLASSES, **_RARE
    )
    resample: Literal["balanced", "sqrt"] | None = option(
        None, "Sample rows of rare classes more often.", tasks=_CLASSES, **_RARE
    )
    threshold_for: str | None = option(
        None,
        "Choose the threshold of this class on the dev examples, for the best F1.",
        metavar="CLASS",
        panel=TASK,
        tasks=_CLASSES,
    )
    threshold_precision: float | None = option(
        None,
        "Choose the threshold for at least this precision, with the highest recall.",
        default_help="none: the best F1",
        tasks=_CLASSES,
        **_RARE,
    )
    score_range: tuple[float, float] | None = option(
        None,
        "Lowest and highest score; rows outside are invalid.",
        metavar="LOW HIGH",
        default_help="any number",
        panel=TASK,
        tasks=("regression", "similarity"),
    )
    encoder: Literal["dense", "sparse", "cross"] | None = option(
        None,
        "What reads a pair: two embeddings, dense or sparse (SPLADE), or a cross-encoder (reranker).",
        default_help="of regression none, of similarity dense",
        panel=TASK,
        recipe_only=True,
        tasks=("regression", "similarity"),
    )
    sparsity: tuple[float, float] | None = option(
        None,
        "Weights of the FLOPS regularizer of sparse embeddings, for first and second texts.",
        metavar="FIRST SECOND",
        default_help=" ".join(f"{weight:g}" for weight in SPARSITY),
        panel=TASK,
        recipe_only=True,
        tasks=("similarity",),
    )
    matryoshka: tuple[int, ...] = option(
        (),
        "Also train the first N numbers of an embedding as an embedding of their own, as in 64,128.",
        default_help="none: all of it",
        tasks=("similarity",),
        **_RARE,
    )
    crf: bool = option(
        False,
        "Add a conditional random field (CRF) on top, which scores whole tag sequences.",
        panel=TASK,
        tasks=("tagging",),
    )
    normal: str | None = option(
        None, "Class to learn.", metavar="CLASS", default_help="the most common", panel=TASK, tasks=("anomaly",)
    )
    normal_quantile: float | None = option(
        None,
        "Fraction of the normal dev examples below the threshold.",
        default_help="0.95, where --dev has no other rows",
        tasks=("anomaly",),
        **_RARE,
    )
    label_smoothing: float | None = option(
        None,
        "Label smoothing: probability that is spread over all tokens.",
        by_task={"translation": 0.1},
        tasks=("translation",),
        **_RARE,
    )
    delimiter: str | None = option(
        None,
        'Token between source and target, such as "<to-fr>"; added where it is new.',
        metavar="TOKEN",
        default_help="the end-of-text token",
        tasks=("generation",),
        **_RARE,
    )

    def of_task(self, task: str) -> dict[str, Any]:
        """Returns the settings of a task, by name. Raises ConfigError for invalid values."""
        spec = spec_of(task)
        if spec.settings is not None:
            return vars(spec.settings(**{one.name: getattr(self, one.name) for one in fields(spec.settings)}))
        self._check(task)
        own = [one.name for one in fields(TaskSettings) if task in one.metadata["setting"].tasks]
        return {name: getattr(self, name) for name in own}

    def _check(self, task: str) -> None:
        windows = {name: getattr(self, name) for name in ("long", "stride", "pool", "max_windows", "both_orders")}
        if windows != {one.name: one.default for one in fields(TaskSettings) if one.name in windows}:
            from .windows import LongTexts  # which imports torch

            LongTexts.of(**windows)
        check(
            self.pool == "mean" or task != "similarity",
            "Setting 'pool' is for logits; sentence embeddings of windows are pooled as the model pools its tokens.",
        )
        as_range(self.score_range)
        check(
            min(self.sparsity or SPARSITY) >= 0,
            f"Setting 'sparsity' is {self.sparsity}; it must be two numbers from 0 up.",
        )
        check(
            self.encoder != "sparse" or not (self.matryoshka or self.long != "cut"),
            "Sparse embeddings have no matryoshka sizes and no windows: remove matryoshka and --long.",
        )
        check(self.focal is None or self.focal >= 0, f"Setting 'focal' is {self.focal}; gamma must be 0 or more.")
        for name in ("threshold_precision", "normal_quantile"):
            value = getattr(self, name)
            check(value is None or 0 < value < 1, f"Setting '{name}' is {value}; it must be between 0 and 1.")
        check(
            self.threshold_precision is None or self.threshold_for is not None,
            "Setting 'threshold_precision' needs --threshold-for, the class whose threshold is chosen.",
        )
        check(
            self.label_smoothing is None or 0 <= self.label_smoothing < 1,
            f"Setting 'label_smoothing' is {self.label_smoothing}; it must be from 0 to below 1.",
        )


def as_range(ends: Sequence[float] | None) -> tuple[float, float] | None:
    """Validates (smallest, largest) score; None for any. Raises ConfigError for an invalid range."""
    if ends is None:
        return None
    is_pair = isinstance(ends, Sequence) and not isinstance(ends, str) and len(ends) == 2
    fits = is_pair and all(isinstance(end, (int, float)) and math.isfinite(end) for end in ends) and ends[0] < ends[1]
    shown = " ".join(f"{end:g}" if isinstance(end, float) else str(end) for end in ends) if is_pair else repr(ends)
    check(fits, f"Setting 'score_range' is {shown}; it must be the smallest and the largest score, for example 0 5.")
    return float(ends[0]), float(ends[1])


def spec_of(task: str) -> TaskSpec:
    """Returns the facts about a task; for an unknown one, and one of another package without `spec`, the defaults."""
    if task in SPECS:
        return SPECS[task]
    package = registry.module_of("task", task).rpartition(".")[0]
    if not package or find_spec(f"{package}.spec") is None:
        return TaskSpec()
    spec: TaskSpec = import_module(f"{package}.spec").SPEC
    return spec


def task_for(reader: str, has_numbers: bool = False) -> str:
    """Returns the first registered task that reads such files, for readers of other packages that of labeled texts."""
    tasks = {name: spec_of(name) for name in registry.names("task")}
    found = (name for name, spec in tasks.items() if reader in spec.reads and spec.has_numbers == has_numbers)
    return next(found, None) or task_for("texts", has_numbers)


def task_after(objective: str) -> str:
    """Returns the task for which models of a pre-training objective are usually fine-tuned."""
    tasks = registry.names("task")
    return next((name for name in tasks if objective in spec_of(name).follows), tasks[0])


def readers_of(task: str) -> list[Reader]:
    """Returns the readers of the files that a task is trained on, the most common first."""
    return [registry.resolve("reader", name) for name in spec_of(task).reads]


def fits(task: str, reader: Reader) -> bool:
    """Whether a task can be trained on files of a reader."""
    own = readers_of(task)
    return reader in own or (reader.is_text and any(one.is_text for one in own))


def reader_for(task: str, path: Path, columns: Mapping[str, str] | None = None) -> Reader:
    """Returns the reader of a file for a task: the one that recognizes it if it fits, otherwise the task's first."""
    from ..text.readers.tables import find_reader

    found = find_reader(path, columns, lambda reader: fits(task, reader))
    return found if found is not None and fits(task, found) else readers_of(task)[0]


def check_content(path: Path, task: str) -> Reader | None:
    """Returns the reader of a file; None for one that is missing or not recognized.

    Raises InputError for a file with rows of another task, with the command for that task.
    """
    from ..text.readers.tables import find_reader

    found = find_reader(path, None, lambda reader: fits(task, reader)) if path.exists() else None
    if found is None or fits(task, found):
        return found
    raise InputError(
        f"{path} contains {found.contains}, which {task} does not read: it reads {readers_of(task)[0].layout}. "
        f"For this file run maskwright finetune {task_for(found.name)}."
    )


def with_other_packages(cls: type[Config]) -> type[Config]:
    """Adds the settings of tasks of other packages to a subclass of TaskSettings; a decorator, before `dataclass`.

    Raises ConfigError for a setting that exists.
    """
    for task in registry.names("task"):
        spec = TaskSpec() if task in SPECS else spec_of(task)
        hints = {} if spec.settings is None else get_type_hints(spec.settings)
        for one in () if spec.settings is None else fields(spec.settings):
            if hasattr(cls, one.name) or one.name in cls.__annotations__:
                raise ConfigError(f"The task '{task}' declares the setting '{one.name}', which exists: rename it.")
            cls.__annotations__[one.name] = hints[one.name]
            setattr(cls, one.name, redeclare(one, tasks=(task,)))
        for name, value in spec.defaults.items():
            usual = vars(cls)[name].metadata["setting"].by_task
            setattr(cls, name, redeclare(vars(cls)[name], by_task={**usual, task: value}))
    return cls
