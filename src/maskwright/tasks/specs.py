"""What is known of a task before it is imported: its settings, their defaults, the files that it reads.

A task package declares it as `SPEC` in its module `spec`. These modules import no torch, because `--help` reads them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, TypeVar, get_type_hints

from ..core import registry
from ..core.config import LONG_TEXTS, TASK, check, default_of, option, redeclare
from ..core.errors import ConfigError

# -- What is known of a task before it is imported: its settings, their defaults, the files that it reads -----------

Config = TypeVar("Config")


@dataclass(frozen=True)
class ModelKind:
    """A kind of model: what it is and what it can do, by its head.

    Attributes:
        head: name of the head in the registry, None without one.
        description: what messages call it, with its article.
        commands: commands that support it, for messages.
        abilities: what it can do, as in "classify", "tag" or "generate"; routes, pages and functions ask for these.
        title: name in model lists, "" for the head.
    """

    head: str | None
    description: str
    commands: str
    abilities: frozenset[str] = frozenset()
    title: str = ""

    @property
    def name(self) -> str | None:
        """Its name, which differs from that of every other kind."""
        return self.title or self.head

    def can(self, *abilities: str) -> bool:
        """Whether it has one of the abilities."""
        return not self.abilities.isdisjoint(abilities)


@dataclass(frozen=True, kw_only=True)
class NoSettings:
    """The settings of a task without any."""


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """Facts about a task.

    Attributes:
        title: name of the task in forms, "" for its name in the registry.
        networks: kinds of models that it is trained from: encoder, causal, encoder-decoder.
        settings: dataclass of `core.options.option` fields, which checks them and is passed to `Task.from_rows`.
        read_settings: those of them that are passed to `Task.read`.
        run_settings: fields of FinetuneConfig that only some tasks have, and this one has.
        defaults: its defaults of settings of FinetuneConfig that are None there.
        reads: names of the readers (`core.registry`, kind "reader") of the files that it is trained on.
        has_classes: whether labels are a few classes.
        has_numbers: whether labels are numbers.
        long_texts: how it reads long texts, if it has no settings for them, as in "truncates long texts".
        freezes_encoder: whether only the head is trained.
        has_head: whether the model has a head.
        follows: pre-training objectives whose models are usually fine-tuned for this task.
        kinds: kinds of models that it makes.
        contrastive: task that `--contrastive` trains instead, "" if there is none.
    """

    title: str = ""
    networks: tuple[str, ...] = ("encoder", "causal")
    settings: type = NoSettings
    read_settings: tuple[str, ...] = ()
    run_settings: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    reads: tuple[str, ...] = ("texts",)
    has_classes: bool = False
    has_numbers: bool = False
    long_texts: str = ""
    freezes_encoder: bool = False
    has_head: bool = True
    follows: tuple[str, ...] = ()
    kinds: tuple[ModelKind, ...] = ()
    contrastive: str = ""

    def settings_in(self, config: Any) -> Any:
        """Returns the task's settings of a fine-tuning recipe. Raises ConfigError for invalid values."""
        return self.settings(**{one.name: getattr(config, one.name) for one in fields(self.settings)})


def spec_of(task: str) -> TaskSpec:
    """Returns the facts about a task; for an unknown one, and an outside one without a module `spec`, the defaults."""
    if task in SPECS:
        return SPECS[task]
    package = registry.module_of("task", task).rpartition(".")[0]
    if not package or find_spec(f"{package}.spec") is None:
        return TaskSpec()
    spec: TaskSpec = import_module(f"{package}.spec").SPEC
    return spec


def task_for(reader: str, has_numbers: bool = False) -> str:
    """Returns the first registered task that reads such files."""
    return next(
        name
        for name in registry.names("task")
        if reader in spec_of(name).reads and spec_of(name).has_numbers == has_numbers
    )


def task_after(objective: str) -> str:
    """Returns the task for which models of a pre-training objective are usually fine-tuned."""
    tasks = registry.names("task")
    return next((name for name in tasks if objective in spec_of(name).follows), tasks[0])


def with_task_settings(cls: type[Config]) -> type[Config]:
    """Adds the settings of all tasks to a configuration class; a decorator, applied before `dataclass`.

    Raises ConfigError for a task that declares a setting of the class itself, or one of another task with another type.
    """
    tasks: dict[str, list[str]] = {}
    defaults: dict[str, dict[str, Any]] = {}
    for task in registry.names("task"):
        spec = spec_of(task)
        for name, value in spec.defaults.items():
            defaults.setdefault(name, {})[task] = value
        for name in spec.run_settings:
            tasks.setdefault(name, []).append(task)
        hints = get_type_hints(spec.settings)
        for one in fields(spec.settings):
            if cls.__annotations__.setdefault(one.name, hints[one.name]) != hints[one.name]:
                raise ConfigError(f"The task '{task}' declares the setting '{one.name}', which exists: rename it.")
            if one.name not in vars(cls):
                setattr(cls, one.name, option(default_of(one), one.metadata["setting"]))
            tasks.setdefault(one.name, []).append(task)
    for name in {**tasks, **defaults}:
        setting = vars(cls)[name].metadata["setting"]
        by_task = {**setting.by_task, **defaults.get(name, {})}
        setattr(cls, name, redeclare(vars(cls)[name], tasks=tuple(tasks.get(name, ())), by_task=by_task))
    return cls


# -- Settings that several tasks have -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LongTextSettings:
    """Settings for texts longer than the maximum sequence length; see `windows.LongTexts`."""

    long: Literal["cut", "windows"] = option(
        "cut", "Truncate longer texts, or read them in overlapping windows.", panel=LONG_TEXTS
    )
    stride: int | None = option(
        None,
        "Tokens that neighboring windows share.",
        default_help="a third of --max-length, at most 128 tokens",
        panel=LONG_TEXTS,
        recipe_only=True,
    )
    pool: Literal["mean", "max"] = option(
        "mean", "How the logits of the windows are pooled.", panel=LONG_TEXTS, recipe_only=True
    )
    max_windows: int = option(
        32, "Maximum windows per text in training, spread evenly over longer ones.", panel=LONG_TEXTS, recipe_only=True
    )

    def __post_init__(self) -> None:
        from .windows import LongTexts

        LongTexts.of(self.long, self.stride, self.pool, self.max_windows)


@dataclass(frozen=True, kw_only=True)
class PairOrderSettings(LongTextSettings):
    """Settings for long texts and pairs."""

    both_orders: bool = option(
        False, "Read each pair as A B and as B A and pool their logits.", panel=TASK, recipe_only=True
    )

    def __post_init__(self) -> None:
        from .windows import LongTexts

        LongTexts.of(self.long, self.stride, self.pool, self.max_windows, self.both_orders)


@dataclass(frozen=True, kw_only=True)
class ScoreSettings:
    """Settings of scores as labels."""

    score_range: tuple[float, float] | None = option(
        None,
        "Lowest and highest score; rows outside are invalid.",
        metavar="LOW HIGH",
        default_help="any number",
        panel=TASK,
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


# -- Settings of text classification --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ClassificationSettings(PairOrderSettings):
    """Settings of `finetune classification` alone."""

    class_weight: Literal["balanced"] | None = option(
        None, "Weight the loss of each class by its inverse frequency.", panel=TASK
    )
    multi_label: bool | None = option(
        None, "Rows have several labels, a|b, or none.", default_help="as the data has it", panel=TASK
    )
    focal: float | None = option(
        None, "Gamma of the focal loss, such as 2.", default_help="none: cross-entropy", panel=TASK, recipe_only=True
    )
    resample: Literal["balanced", "sqrt"] | None = option(
        None, "Sample rows of rare classes more often.", panel=TASK, recipe_only=True
    )
    threshold_for: str | None = option(
        None,
        "Choose the threshold of this class on the dev examples, for the best F1.",
        metavar="CLASS",
        panel=TASK,
    )
    threshold_precision: float | None = option(
        None,
        "Choose the threshold for at least this precision, with the highest recall.",
        default_help="none: the best F1",
        panel=TASK,
        recipe_only=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.focal is None or self.focal >= 0, f"Setting 'focal' is {self.focal}; gamma must be 0 or more.")
        check(
            self.threshold_precision is None or 0 < self.threshold_precision < 1,
            f"Setting 'threshold_precision' is {self.threshold_precision}; it must be between 0 and 1.",
        )
        check(
            self.threshold_precision is None or self.threshold_for is not None,
            "Setting 'threshold_precision' needs --threshold-for, the class whose threshold is chosen.",
        )


CLASSIFICATION = TaskSpec(
    title="Classification of texts or pairs",
    settings=ClassificationSettings,
    read_settings=("multi_label",),
    run_settings=("calibrate",),
    reads=("texts", "trees"),
    has_classes=True,
    kinds=(
        ModelKind(
            "classification",
            "a classifier",
            "predict, evaluate or embed",
            frozenset({"predict", "classify", "text-logits", "classes"}),
        ),
    ),
)


# -- Settings of regression -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RegressionSettings(ScoreSettings, PairOrderSettings):
    """Settings of `finetune regression`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        as_range(self.score_range)


REGRESSION = TaskSpec(
    title="Regression of texts or pairs",
    settings=RegressionSettings,
    read_settings=("score_range",),
    run_settings=("contrastive",),
    has_numbers=True,
    contrastive="similarity",
    kinds=(
        ModelKind(
            "regression",
            "a regression model",
            "predict, evaluate or embed",
            frozenset({"predict", "classify", "text-logits", "numbers"}),
        ),
    ),
)


# -- Settings of token classification -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TaggingSettings:
    """Settings of `finetune tagging` alone."""

    crf: bool = option(
        False, "Add a conditional random field (CRF) on top, which scores whole tag sequences.", panel=TASK
    )


TAGGING = TaskSpec(
    title="Token classification (CoNLL)",
    settings=TaggingSettings,
    run_settings=("calibrate",),
    reads=("tagged",),
    has_classes=True,
    follows=("bilm",),
    long_texts="always reads long texts in windows",
    kinds=(
        ModelKind(
            "tagging", "a token classification model", "predict, evaluate or embed", frozenset({"predict", "tag"})
        ),
        ModelKind(
            "tagging-crf",
            "a token classification model with a CRF",
            "predict, evaluate or embed",
            frozenset({"predict", "tag"}),
        ),
    ),
)


# -- What `finetune` knows of question answering: it has no settings of its own -------------------------------------

QA = TaskSpec(
    title="Question answering (SQuAD)",
    reads=("questions",),
    long_texts="always reads long texts in windows",
    kinds=(
        ModelKind(
            "qa", "a question-answering model", "answer, predict, evaluate or embed", frozenset({"predict", "answer"})
        ),
    ),
)


# -- Settings of anomaly detection ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AnomalySettings(LongTextSettings):
    """Settings of `finetune anomaly` alone."""

    normal: str | None = option(None, "Class to learn.", metavar="CLASS", default_help="the most common", panel=TASK)
    normal_quantile: float | None = option(
        None,
        "Fraction of the normal dev examples below the threshold.",
        default_help="0.95, where --dev has no other rows",
        panel=TASK,
        recipe_only=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check(
            self.normal_quantile is None or 0 < self.normal_quantile < 1,
            f"Setting 'normal_quantile' is {self.normal_quantile}; it must be between 0 and 1.",
        )


# A small network on frozen features takes many quick steps.
ANOMALY = TaskSpec(
    title="Anomaly detection",
    settings=AnomalySettings,
    defaults={"epochs": 30, "min_steps": 0, "lr": 1e-3},
    freezes_encoder=True,
    has_classes=True,
    kinds=(
        ModelKind(
            "anomaly",
            "an anomaly detector",
            "predict, evaluate or embed",
            frozenset({"predict", "classify", "detect-anomalies"}),
        ),
    ),
)


# -- Settings of multiple choice ------------------------------------------------------------------------------------

CHOICE = TaskSpec(
    title="Multiple choice (SWAG)",
    settings=LongTextSettings,
    reads=("choices",),
    kinds=(
        ModelKind("choice", "a multiple-choice model", "predict, evaluate or embed", frozenset({"predict", "choose"})),
    ),
)


# -- Settings of sentence embeddings --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SimilaritySettings(ScoreSettings, LongTextSettings):
    """Settings of `finetune similarity`."""

    def __post_init__(self) -> None:
        as_range(self.score_range)
        check(
            self.pool == "mean",
            "Setting 'pool' is for logits; sentence embeddings of windows are pooled as the model pools its tokens.",
        )


SIMILARITY = TaskSpec(
    title="Sentence embeddings (pairs)",
    settings=SimilaritySettings,
    read_settings=("score_range",),
    run_settings=("contrastive",),
    has_numbers=True,
    has_head=False,
    contrastive="similarity",
    kinds=(
        ModelKind(
            None,
            "a sentence encoder",
            "similarity, search, cluster, embed, evaluate, predict or finetune",
            frozenset({"predict", "embed", "compare"}),
            "sentence",
        ),
    ),
)


# -- Settings of translation ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TranslationSettings:
    """Settings of `finetune translation` alone."""

    label_smoothing: float | None = option(
        None, "Label smoothing: probability that is spread over all tokens.", panel=TASK, recipe_only=True
    )

    def __post_init__(self) -> None:
        check(
            self.label_smoothing is None or 0 <= self.label_smoothing < 1,
            f"Setting 'label_smoothing' is {self.label_smoothing}; it must be from 0 to below 1.",
        )


# From scratch, as published: 7e-4 is (512 * 4000) ** -0.5 (Vaswani et al. 2017, equation 3).
TRANSLATION = TaskSpec(
    title="Translation",
    networks=("encoder-decoder",),
    settings=TranslationSettings,
    run_settings=("train_target", "dev_target", "target_tokenizer", "batch_tokens", "average_checkpoints"),
    defaults={
        "epochs": 20,
        "min_steps": 0,
        "lr": 7e-4,
        "warmup": 4000,
        "schedule": "inverse_sqrt",
        "batch_tokens": 4096,
        "label_smoothing": 0.1,
    },
    follows=("denoise",),
    long_texts="truncates long texts",
    kinds=(
        ModelKind(
            "seq2seq",
            "a translation model",
            "translate, predict, evaluate, embed or finetune",
            frozenset({"predict", "translate"}),
        ),
    ),
)


# -- Settings of text-to-text generation ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class GenerationSettings:
    """Settings of `finetune generation` alone."""

    delimiter: str | None = option(
        None,
        'Token between source and target, such as "<to-fr>"; added where it is new.',
        metavar="TOKEN",
        default_help="the end-of-text token",
        panel=TASK,
        recipe_only=True,
    )


GENERATION = TaskSpec(
    title="Text-to-text generation",
    networks=("causal",),
    settings=GenerationSettings,
    long_texts="truncates long texts",
    kinds=(
        ModelKind(
            "clm",
            "a text-to-text model",
            "predict, evaluate, generate or finetune",
            frozenset({"predict", "generate"}),
            "generation",
        ),
    ),
)


SPECS = {
    "classification": CLASSIFICATION,
    "regression": REGRESSION,
    "tagging": TAGGING,
    "qa": QA,
    "anomaly": ANOMALY,
    "choice": CHOICE,
    "similarity": SIMILARITY,
    "translation": TRANSLATION,
    "generation": GENERATION,
}
