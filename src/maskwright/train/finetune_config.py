"""The recipe of a fine-tuning run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..core import registry
from ..core.config import check, check_above_zero, check_at_least, check_not_negative, fit_types
from ..tasks.long_texts import MAX_WINDOWS, LongTexts
from ..tasks.regression import as_range
from .optimizer import Schedule

# What epochs and lr are where nobody gives them. A small network on features that stand still takes many quick steps.
_TUNED: dict[str, Any] = {"epochs": 3, "lr": 5e-5, "warmup": 0.1, "schedule": "linear", "batch_tokens": None}
DEFAULTS: dict[str, dict[str, Any]] = {
    "": _TUNED,
    "anomaly": _TUNED | {"epochs": 30, "lr": 1e-3},
    # From scratch, as published: 7e-4 is (512 * 4000) ** -0.5 (Vaswani et al. 2017, equation 3).
    "translation": {
        "epochs": 20,
        "lr": 7e-4,
        "warmup": 4000,
        "schedule": "inverse_sqrt",
        "batch_tokens": 4096,
        "label_smoothing": 0.1,
    },
}
OF_ONE_TASK = {
    "classification": ("class_weight", "multi_label", "focal", "resample", "threshold_for", "threshold_precision"),
    "tagging": ("crf",),
    "regression": ("score_range",),
    "anomaly": ("normal", "normal_quantile"),
    "generation": ("delimiter",),
    "translation": (
        "train_target",
        "dev_target",
        "target_tokenizer",
        "batch_tokens",
        "label_smoothing",
        "average_checkpoints",
    ),
}
# What can be put between the encoder of a model folder and the new head.
TOP = ("mix_layers", "top_layers", "top_embedding_size")
CUTS = ("generation", "translation")  # tasks whose long texts are cut
IN_WINDOWS = ("tagging", "qa")  # tasks that read long texts in windows without being asked


@dataclass(frozen=True)
class FinetuneConfig:
    """Everything that decides a fine-tuning run. Validated on construction: ConfigError names the setting.

    model: a model folder to start from; or from scratch: preset and tokenizer. train, dev: labelled files (without dev
    a tenth of train is set aside, by class); columns: role -> column name; seeds: so many runs with seeds
    seed, seed + 1, ...; patience: stop after so many epochs without a better dev score, 0 to run all; multi_label:
    None decides by the data; metric: the dev metric that chooses the best epoch and seed, None for the task's own;
    focal: gamma of the focal loss; resample: draw rows of rare classes more often; threshold_for: a class whose
    threshold is chosen on the dev rows, for the best F1, or for threshold_precision with as much recall as that leaves;
    score_range: of a regression (also contrastive), the least and the greatest score that a row may have;
    normal: of an anomaly run, the class that it learns (None: the commonest), and normal_quantile: the part of normal
    dev rows below its threshold where dev has no others (None: 0.95); epochs, lr: None for what suits the task
    (DEFAULTS); delimiter: of a generation run, the token between source and target (None: that which closes a text);
    of a translation run: train_target, dev_target: the translations of train and dev, line by line, where those are
    text files; target_tokenizer: from scratch, of the targets, where they have a vocabulary of their own; batch_tokens:
    tokens of a step, both sides counted, instead of batch_size; label_smoothing: the part of the probability that
    training spreads over all tokens; average_checkpoints: the model is the mean of the weights after so many last
    epochs, None for the best epoch's; network: changes of the preset, by names of ModelConfig; of a model folder, what
    stands between its encoder and the new head (mix_layers, top_layers, top_embedding_size);
    crf: judge the tags of a sentence together; contrastive: train the vectors of sentences themselves,
    without a head (task regression; the same as task similarity); long: whether texts of more than max_length tokens
    are cut or read in windows, which share `stride` tokens and are pooled by `pool`, in training at most max_windows of
    a row; both_orders: pairs are read as (A, B) and as (B, A), and the logits of both are pooled; average_seeds: the
    model is the mean of the seeds' weights, not the best seed; calibrate: fit a temperature on the dev rows at the end;
    activation_checkpointing: layers keep their inputs alone and run again for their gradients: less memory, about a
    third more work, the same numbers; tensorboard: also write the log as TensorBoard events (may change when a run
    goes on).
    """

    train: Path
    output: Path
    task: str = "classification"
    model: str | None = None
    preset: str | None = None
    tokenizer: Path | None = None
    dev: Path | None = None
    columns: dict[str, str] = field(default_factory=dict)
    epochs: int = None  # type: ignore[assignment]  # a number from construction on: that of DEFAULTS
    lr: float = None  # type: ignore[assignment]
    train_target: Path | None = None
    dev_target: Path | None = None
    target_tokenizer: Path | None = None
    network: dict[str, Any] = field(default_factory=dict)
    batch_size: int = 32
    accumulation: int = 1
    activation_checkpointing: bool = False
    max_length: int = 128
    batch_tokens: int | None = None
    label_smoothing: float | None = None
    average_checkpoints: int | None = None
    warmup: float = None  # type: ignore[assignment]
    schedule: Schedule = None  # type: ignore[assignment]
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    patience: int = 0
    seeds: int = 1
    average_seeds: bool = False
    freeze_encoder: bool = False
    class_weight: Literal["balanced"] | None = None
    multi_label: bool | None = None
    metric: str | None = None
    focal: float | None = None
    resample: Literal["balanced", "sqrt"] | None = None
    threshold_for: str | None = None
    threshold_precision: float | None = None
    score_range: tuple[float, ...] | None = None
    normal: str | None = None
    normal_quantile: float | None = None
    crf: bool = False
    delimiter: str | None = None
    calibrate: bool = False
    contrastive: bool = False
    long: Literal["cut", "windows"] = "cut"
    stride: int | None = None
    pool: Literal["mean", "max"] = "mean"
    max_windows: int = MAX_WINDOWS
    both_orders: bool = False
    skip_bad_rows: bool = False
    checkpoint_every: int = 0
    log_every: int = 10
    tensorboard: bool = False
    seed: int = 0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"

    def __post_init__(self) -> None:
        for name, value in DEFAULTS.get(self.task, DEFAULTS[""]).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        fit_types(self)
        known = registry.names("task")
        check(self.task in known, registry.unknown_name("task", self.task, known))
        check(
            (self.model is None) != (self.preset is None),
            "Give either --model (a folder to start from) or --preset with --tokenizer (from scratch).",
        )
        check(
            self.preset is None or self.tokenizer is not None,
            f"--preset {self.preset} starts from scratch and needs --tokenizer, the folder of a saved tokenizer.",
        )
        check(
            self.tokenizer is None or self.preset is not None,
            "--tokenizer goes with --preset (from scratch); a model folder has a tokenizer of its own.",
        )
        check_at_least(self, 1, "epochs", "batch_size", "accumulation", "seeds", "log_every")
        check_above_zero(self, "lr", "clip_norm")
        check_not_negative(self, "warmup", "weight_decay", "patience", "checkpoint_every")
        check_at_least(self, 4, "max_length")
        check_at_least(self, 1, "average_checkpoints")
        self._check_task()
        self._check_rare()
        self._check_translation()
        check(
            not self.average_seeds or (self.seeds > 1 and self.model is not None),
            "--average-seeds needs --seeds 2 or more and --model: weights can only be averaged where all seeds "
            "started from the same ones.",
        )

    def _check_task(self) -> None:
        """What the task takes no part in."""
        for task, settings in OF_ONE_TASK.items():
            for name in settings:
                value = getattr(self, name)
                is_own = self.task == task or (self.task, task) == ("similarity", "regression")
                is_free = value is None or value is False or is_own
                check(is_free, f"Setting '{name}' is for {task}, not {self.task}.")
        as_range(self.score_range)
        check(
            not self.calibrate or self.task in ("classification", "tagging"),
            f"Setting 'calibrate' is for classification and tagging, not {self.task}.",
        )
        check(
            not self.contrastive or self.task in ("regression", "similarity"),
            f"Setting 'contrastive' is for regression, not {self.task}.",
        )
        check(
            not (self.freeze_encoder and self.task_name == "similarity"),
            "--freeze-encoder leaves nothing to train: vectors of sentences come from the encoder itself.",
        )
        check(
            not self.both_orders or self.task in ("classification", "regression"),
            f"Setting 'both_orders' is for classification and regression, not {self.task}.",
        )
        long = LongTexts.of(self.long, self.stride, self.pool, self.max_windows, self.both_orders)
        check(
            long is None or self.task not in IN_WINDOWS,
            f"Setting 'long' is not for {self.task}, which reads long texts in windows as it is.",
        )
        check(
            long is None or self.task not in CUTS,
            f"Setting 'long' is not for {self.task}, whose texts are cut.",
        )
        check(
            self.pool == "mean" or self.task_name != "similarity",
            "Setting 'pool' is for answers; the vectors of a text's windows are joined as the model pools its tokens.",
        )

    def _check_translation(self) -> None:
        for name in ("train", "dev"):
            check(
                getattr(self, f"{name}_target") is None or getattr(self, name) is not None,
                f"Setting '{name}_target' is the translation of '{name}': give that too.",
            )
        check(
            self.label_smoothing is None or 0 <= self.label_smoothing < 1,
            f"Setting 'label_smoothing' is {self.label_smoothing}; it must be from 0 to below 1.",
        )
        check(
            self.batch_tokens is None or self.batch_tokens >= 2 * self.max_length,
            f"Setting 'batch_tokens' is {self.batch_tokens}; it must hold a pair of {self.max_length} tokens a side.",
        )
        check(
            self.target_tokenizer is None or self.preset is not None,
            "Setting 'target_tokenizer' goes with --preset (from scratch); a model folder has its own.",
        )
        other = [name for name in self.network if name not in TOP]
        check(
            not other or self.preset is not None,
            f"Setting '{', '.join(other)}' of the network goes with --preset (from scratch); to a model folder, only "
            f"{', '.join(TOP[:-1])} and {TOP[-1]} can be added.",
        )
        check(
            not (self.average_checkpoints and (self.average_seeds or self.patience)),
            "--average-checkpoints takes the last epochs, so it does not go with --patience, nor with --average-seeds.",
        )

    def _check_rare(self) -> None:
        check(self.focal is None or self.focal >= 0, f"Setting 'focal' is {self.focal}; gamma must be 0 or more.")
        for name in ("threshold_precision", "normal_quantile"):
            value = getattr(self, name)
            check(value is None or 0 < value < 1, f"Setting '{name}' is {value}; it must lie between 0 and 1.")
        check(
            self.threshold_precision is None or self.threshold_for is not None,
            "--threshold-precision needs --threshold-for, the class whose threshold is chosen.",
        )

    @property
    def task_name(self) -> str:
        """The registered task that runs: contrastive regression is similarity."""
        return "similarity" if self.contrastive else self.task

    def resolved(self, device: str, precision: str) -> FinetuneConfig:
        """The same recipe with every automatic setting decided and every path absolute."""
        changes: dict[str, Any] = {"device": device, "precision": precision}
        for name in ("train", "train_target", "dev", "dev_target", "output", "tokenizer", "target_tokenizer"):
            path = getattr(self, name)
            changes[name] = None if path is None else path.absolute()
        if self.model is not None and Path(self.model).is_dir():
            changes["model"] = str(Path(self.model).absolute())
        return replace(self, **changes)
