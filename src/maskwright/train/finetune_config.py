"""The recipe of a fine-tuning run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..core import registry
from ..core.config import check, fit_types
from ..tasks.long_texts import MAX_WINDOWS, LongTexts
from .optimizer import Schedule


@dataclass(frozen=True)
class FinetuneConfig:
    """Everything that decides a fine-tuning run. Validated on construction: ConfigError names the setting.

    model: a model folder to start from; or from scratch: preset and tokenizer. train, dev: labelled files (without dev
    a tenth of train is set aside, by class); columns: role -> column name; seeds: so many runs with seeds
    seed, seed + 1, ...; patience: stop after so many epochs without a better dev score, 0 to run all; multi_label:
    None decides by the data; metric: the dev metric that chooses the best epoch and seed, None for the task's own; crf:
    judge the tags of a sentence together; contrastive: train the vectors of sentences themselves, without a head (task
    regression; the same as task similarity); long: whether texts of more than max_length tokens are cut or read in
    windows, which share `stride` tokens and are pooled by `pool`, in training at most max_windows of a row;
    average_seeds: the model is the mean of the seeds' weights, not the best seed; calibrate: fit a temperature on the
    dev rows at the end; tensorboard: also write the log as TensorBoard events (may change when a run goes on).
    """

    train: Path
    output: Path
    task: str = "classification"
    model: str | None = None
    preset: str | None = None
    tokenizer: Path | None = None
    dev: Path | None = None
    columns: dict[str, str] = field(default_factory=dict)
    epochs: int = 3
    lr: float = 5e-5
    batch_size: int = 32
    accumulation: int = 1
    max_length: int = 128
    warmup: float = 0.1
    schedule: Schedule = "linear"
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    patience: int = 0
    seeds: int = 1
    average_seeds: bool = False
    freeze_encoder: bool = False
    class_weight: Literal["balanced"] | None = None
    multi_label: bool | None = None
    metric: str | None = None
    crf: bool = False
    calibrate: bool = False
    contrastive: bool = False
    long: Literal["cut", "windows"] = "cut"
    stride: int | None = None
    pool: Literal["mean", "max"] = "mean"
    max_windows: int = MAX_WINDOWS
    skip_bad_rows: bool = False
    checkpoint_every: int = 0
    log_every: int = 10
    tensorboard: bool = False
    seed: int = 0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"

    def __post_init__(self) -> None:
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
        for name in ("epochs", "batch_size", "accumulation", "seeds", "log_every"):
            check(getattr(self, name) >= 1, f"Setting '{name}' is {getattr(self, name)}; it must be at least 1.")
        for name in ("lr", "clip_norm"):
            check(getattr(self, name) > 0, f"Setting '{name}' is {getattr(self, name)}; it must be above 0.")
        for name in ("warmup", "weight_decay", "patience", "checkpoint_every"):
            check(
                getattr(self, name) >= 0,
                f"Setting '{name}' is {getattr(self, name)}; it must not be negative.",
            )
        check(self.max_length >= 4, f"Setting 'max_length' is {self.max_length}; it must be at least 4.")
        check(
            self.class_weight is None or self.task == "classification",
            f"Setting 'class_weight' is for classification, not {self.task}.",
        )
        check(
            not self.multi_label or self.task == "classification",
            f"Setting 'multi_label' is for classification, not {self.task}.",
        )
        check(not self.crf or self.task == "tagging", f"Setting 'crf' is for tagging, not {self.task}.")
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
            LongTexts.of(self.long, self.stride, self.pool, self.max_windows) is None
            or self.task in ("classification", "regression"),
            f"Setting 'long' is for classification and regression; {self.task} reads long texts in windows as it is.",
        )
        check(
            not self.average_seeds or (self.seeds > 1 and self.model is not None),
            "--average-seeds needs --seeds 2 or more and --model: weights can only be averaged where all seeds "
            "started from the same ones.",
        )

    @property
    def task_name(self) -> str:
        """The registered task that runs: contrastive regression is similarity."""
        return "similarity" if self.contrastive else self.task

    def resolved(self, device: str, precision: str) -> FinetuneConfig:
        """The same recipe with every automatic setting decided and every path absolute."""
        changes: dict[str, Any] = {"device": device, "precision": precision}
        for name in ("train", "dev", "output", "tokenizer"):
            path = getattr(self, name)
            changes[name] = None if path is None else path.absolute()
        if self.model is not None and Path(self.model).is_dir():
            changes["model"] = str(Path(self.model).absolute())
        return replace(self, **changes)
