"""The recipe of a fine-tuning run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from ...core import registry
from ...core.config import check, check_above_zero, check_at_least, check_name, check_not_negative, fit_types
from ...core.errors import ConfigError
from ...core.options import LONG_TEXTS, NETWORK, OPTIMIZATION, TASK, fill_defaults, misplaced, option
from ...hub.published import ENGLISH, absolute_name
from ...models.lora_config import LoraConfig
from .. import settings
from ..schedules import Schedule

# What can be put between the encoder of a model folder and the new head.
TOP = ("mix_layers", "top_layers", "top_embedding_size")
TRUNCATING = ("generation", "translation")
WITHOUT_LONG = (*TRUNCATING, "tagging", "qa")  # the last two always read long texts in windows


@dataclass(frozen=True)
class FinetuneConfig:
    """Everything that decides a fine-tuning run. Validated on construction: ConfigError names the setting.

    model: what training starts from, by default the built-in `english`; with preset and tokenizer it starts from
    scratch. Without dev a tenth of train is held out, by class.
    train_target, dev_target: the translations of train and dev, line by line, where those are text files; network:
    changes of the preset, by names of ModelConfig, or, of a model folder, the layers between its encoder and the new
    head (TOP); contrastive: task regression without a head, the same as task similarity; average_checkpoints: None
    keeps the best epoch; tensorboard and activation_checkpointing may change when a run is resumed. epochs, lr, warmup,
    schedule, batch_tokens and label_smoothing: None becomes the task's own default. `maskwright finetune --help` has a
    line for each setting.
    """

    COMMAND: ClassVar[str] = "finetune"

    train: Path = option(
        help="Labeled rows to train on; for translation also two text files, line by line.", metavar="FILE"
    )
    output: Path = option(help=settings.OUTPUT)
    task: str = option("classification", "Task to fine-tune for.", is_argument=True)
    model: str | None = option(None, settings.MODEL, default_help=f"{ENGLISH}, or from scratch with --preset")
    preset: str | None = option(None, "Model configuration to train from scratch, without --model.")
    tokenizer: Path | None = option(None, "Saved tokenizer of a model trained from scratch.")
    dev: Path | None = option(
        None,
        "Dev examples that choose the best epoch, in the format of --train.",
        metavar="FILE",
        default_help="10% of --train",
    )
    columns: dict[str, str] = option({}, settings.COLUMNS)
    epochs: int = option(None, settings.EPOCHS, by_task={"": 3, "anomaly": 30, "translation": 20})
    # From scratch, as published: 7e-4 is (512 * 4000) ** -0.5 (Vaswani et al. 2017, equation 3). A small network on
    # frozen features takes many quick steps.
    lr: float = option(None, settings.LR, by_task={"": 5e-5, "anomaly": 1e-3, "translation": 7e-4})
    train_target: Path | None = option(
        None, "Translations of --train, line by line, where that is a text file.", tasks=("translation",), panel=TASK
    )
    dev_target: Path | None = option(
        None, "Translations of --dev, line by line, where that is a text file.", tasks=("translation",), panel=TASK
    )
    target_tokenizer: Path | None = option(
        None,
        "Saved tokenizer of the translations, from scratch.",
        default_help="that of --tokenizer",
        tasks=("translation",),
        panel=TASK,
    )
    network: dict[str, Any] = option(
        {},
        settings.NETWORK_CHANGES,
        help="Change the preset, as in positions=rotary; with --model, add layers before the head: mix_layers, "
        "top_layers, top_embedding_size. Repeatable.",
    )
    batch_size: int = option(32, settings.BATCH_SIZE)
    accumulation: int = option(1, settings.ACCUMULATION)
    activation_checkpointing: bool = option(False, settings.ACTIVATION_CHECKPOINTING)
    max_length: int = option(128, settings.MAX_LENGTH)
    batch_tokens: int | None = option(
        None,
        "Maximum tokens per step, source and target counted, instead of --batch-size.",
        unit="tokens",
        by_task={"translation": 4096},
        tasks=("translation",),
        panel=TASK,
    )
    label_smoothing: float | None = option(
        None,
        "Label smoothing: probability that is spread over all tokens.",
        by_task={"translation": 0.1},
        tasks=("translation",),
        panel=TASK,
    )
    average_checkpoints: int | None = option(
        None,
        "Average the weights of this many last epochs.",
        default_help="none: keep the best epoch",
        tasks=("translation",),
        panel=TASK,
    )
    warmup: float = option(None, settings.WARMUP, by_task={"": 0.1, "translation": 4000})
    schedule: Schedule = option(None, settings.SCHEDULE, by_task={"": "linear", "translation": "inverse_sqrt"})
    weight_decay: float = option(0.01, settings.WEIGHT_DECAY)
    clip_norm: float = option(1.0, settings.CLIP_NORM)
    patience: int = option(
        0, "Stop after this many epochs without a better dev score; 0 to run all.", panel=OPTIMIZATION
    )
    seeds: int = option(1, settings.SEEDS)
    average_seeds: bool = option(
        False, "Keep the average of the seeds' weights (model soup), not the best seed.", panel=OPTIMIZATION
    )
    freeze_encoder: bool = option(False, "Train only the pooler and the head.", panel=NETWORK)
    adapter: settings.Adapter | None = option(None, settings.ADAPTER)
    rank: int | None = option(None, settings.RANK)
    alpha: float | None = option(None, settings.ALPHA)
    targets: str | None = option(None, settings.TARGETS)
    adapter_dropout: float | None = option(None, settings.ADAPTER_DROPOUT)
    merge: bool = option(False, settings.MERGE)
    class_weight: Literal["balanced"] | None = option(
        None, "Weight the loss of each class by its inverse frequency.", tasks=("classification",), panel=TASK
    )
    multi_label: bool | None = option(
        None,
        "Rows have several labels, a|b, or none.",
        default_help="as the data has it",
        tasks=("classification",),
        panel=TASK,
    )
    metric: str | None = option(
        None, "Dev metric that chooses the best epoch, such as matthews or f1.", default_help="the task's own"
    )
    focal: float | None = option(
        None,
        "Gamma of the focal loss, such as 2.",
        default_help="none: cross-entropy",
        tasks=("classification",),
        panel=TASK,
    )
    resample: Literal["balanced", "sqrt"] | None = option(
        None, "Sample rows of rare classes more often.", tasks=("classification",), panel=TASK
    )
    threshold_for: str | None = option(
        None,
        "Choose the threshold of this class on the dev examples, for the best F1.",
        metavar="CLASS",
        tasks=("classification",),
        panel=TASK,
    )
    threshold_precision: float | None = option(
        None,
        "Choose the threshold for at least this precision, with the highest recall.",
        default_help="none: the best F1",
        tasks=("classification",),
        panel=TASK,
    )
    score_range: tuple[float, float] | None = option(
        None,
        "Lowest and highest score; rows outside are invalid.",
        metavar="LOW HIGH",
        default_help="any number",
        tasks=("regression", "similarity"),
        panel=TASK,
    )
    normal: str | None = option(
        None, "Class to learn.", metavar="CLASS", default_help="the most common", tasks=("anomaly",), panel=TASK
    )
    normal_quantile: float | None = option(
        None,
        "Fraction of the normal dev examples below the threshold.",
        default_help="0.95, where --dev has no other rows",
        tasks=("anomaly",),
        panel=TASK,
    )
    crf: bool = option(
        False, "Add a conditional random field (CRF) on top, which scores whole tag sequences.", tasks=("tagging",),
        panel=TASK,
    )  # fmt: skip
    delimiter: str | None = option(
        None,
        'Token between source and target, such as "<to-fr>"; added where it is new.',
        metavar="TOKEN",
        default_help="the end-of-text token",
        tasks=("generation",),
        panel=TASK,
    )
    calibrate: bool = option(
        False,
        "Fit a temperature on the dev examples, for calibrated probabilities.",
        tasks=("classification", "tagging"),
        panel=TASK,
    )
    contrastive: bool = option(
        False,
        "Train sentence embeddings, compared by cosine similarity.",
        tasks=("regression", "similarity"),
        panel=TASK,
    )
    long: Literal["cut", "windows"] = option(
        "cut", "Truncate longer texts, or read them in overlapping windows.", not_tasks=WITHOUT_LONG, panel=LONG_TEXTS
    )
    stride: int | None = option(
        None,
        "Tokens that neighboring windows share.",
        default_help="a third of --max-length, at most 128 tokens",
        not_tasks=WITHOUT_LONG,
        panel=LONG_TEXTS,
    )
    pool: Literal["mean", "max"] = option(
        "mean", "How the logits of the windows are pooled.", not_tasks=WITHOUT_LONG, panel=LONG_TEXTS
    )
    max_windows: int = option(
        32,
        "Maximum windows per text in training, spread evenly over longer ones.",
        not_tasks=WITHOUT_LONG,
        panel=LONG_TEXTS,
    )
    both_orders: bool = option(
        False,
        "Read each pair as A B and as B A and pool their logits.",
        tasks=("classification", "regression"),
        panel=TASK,
    )
    skip_bad_rows: bool = option(False, settings.SKIP_BAD_ROWS)
    checkpoint_every: int = option(0, settings.CHECKPOINT_EVERY, default_help="one epoch")
    log_every: int = option(10, settings.LOG_EVERY)
    tensorboard: bool = option(False, settings.TENSORBOARD)
    seed: int = option(0, settings.SEED)
    device: settings.Device = option("auto", settings.DEVICE)
    precision: settings.Precision = option("auto", settings.PRECISION)

    def __post_init__(self) -> None:
        if self.adapter is not None and self.lr is None:
            object.__setattr__(self, "lr", settings.ADAPTER_LR)
        fill_defaults(self, self.task)
        if self.model is None and self.preset is None:
            object.__setattr__(self, "model", ENGLISH)
        fit_types(self)
        check_name("task", "task", self.task, registry.names("task"))
        check(
            self.model is None or self.preset is None,
            "Pass either --model (a model to start from) or --preset with --tokenizer (from scratch).",
        )
        if self.preset is not None:
            from ...models.presets import PRESETS

            check_name("preset", "preset", self.preset, PRESETS)
        check(
            self.preset is None or self.tokenizer is not None,
            f"--preset {self.preset} starts from scratch and needs --tokenizer, the folder of a saved tokenizer.",
        )
        check(
            self.tokenizer is None or self.preset is not None,
            "--tokenizer requires --preset (from scratch); a model folder has its own tokenizer.",
        )
        check_at_least(self, 1, "epochs", "batch_size", "accumulation", "seeds", "log_every")
        check_above_zero(self, "lr", "clip_norm")
        check_not_negative(self, "warmup", "weight_decay", "patience", "checkpoint_every")
        check_at_least(self, 4, "max_length")
        check_at_least(self, 1, "average_checkpoints")
        self._check_task()
        self._check_rare()
        self._check_translation()
        self._check_adapter()
        check(
            not self.average_seeds or (self.seeds > 1 and self.model is not None),
            "--average-seeds needs --seeds 2 or more and --model: weights can only be averaged if all seeds "
            "start from the same ones.",
        )

    def _check_task(self) -> None:
        """Check that the settings apply to the task."""
        wrong = misplaced(self, self.task)
        if wrong is not None:
            name, setting = wrong
            reason = f"for {' and '.join(setting.tasks)}, not {self.task}"
            if self.task in setting.not_tasks:
                how = "truncates long texts" if self.task in TRUNCATING else "always reads long texts in windows"
                reason = f"not for {self.task}, which {how}"
            raise ConfigError(f"Setting '{name}' is {reason}.")
        from ...tasks.regression.task import as_range
        from ...tasks.rows.long_texts import LongTexts

        as_range(self.score_range)
        LongTexts.of(self.long, self.stride, self.pool, self.max_windows, self.both_orders)
        check(
            not (self.freeze_encoder and self.task_name == "similarity"),
            "--freeze-encoder leaves nothing to train: sentence embeddings come from the encoder.",
        )
        check(
            self.pool == "mean" or self.task_name != "similarity",
            "Setting 'pool' is for logits; sentence embeddings of windows are pooled as the model pools its tokens.",
        )

    def _check_translation(self) -> None:
        for name in ("train", "dev"):
            check(
                getattr(self, f"{name}_target") is None or getattr(self, name) is not None,
                f"Setting '{name}_target' is the translation of '{name}': pass that too.",
            )
        check(
            self.label_smoothing is None or 0 <= self.label_smoothing < 1,
            f"Setting 'label_smoothing' is {self.label_smoothing}; it must be from 0 to below 1.",
        )
        check(
            self.batch_tokens is None or self.batch_tokens >= 2 * self.max_length,
            f"Setting 'batch_tokens' is {self.batch_tokens}; it must fit a pair of {self.max_length} tokens per side.",
        )
        check(
            self.target_tokenizer is None or self.preset is not None,
            "Setting 'target_tokenizer' requires --preset (from scratch); a model folder has its own.",
        )
        other = [name for name in self.network if name not in TOP]
        check(
            not other or self.preset is not None,
            f"Setting '{', '.join(other)}' of the network requires --preset (from scratch); to a model folder, only "
            f"{', '.join(TOP[:-1])} and {TOP[-1]} can be added.",
        )
        check(
            not (self.average_checkpoints and (self.average_seeds or self.patience)),
            "--average-checkpoints uses the last epochs; it cannot be combined with --patience or --average-seeds.",
        )

    def _check_adapter(self) -> None:
        settings.check_adapter(self)
        if self.adapter is None:
            return
        check(self.preset is None, "--adapter requires --model: an adapter changes a trained model.")
        check(not self.freeze_encoder, "--adapter and --freeze-encoder exclude each other.")
        check(
            not self.average_seeds,
            "--average-seeds averages whole models; adapters of several seeds cannot be averaged.",
        )
        check(self.task != "anomaly", "Setting 'adapter' is not for anomaly, which trains on a frozen encoder.")

    @property
    def lora(self) -> LoraConfig:
        """The settings of the adapter."""
        return settings.lora_of(self)

    def _check_rare(self) -> None:
        check(self.focal is None or self.focal >= 0, f"Setting 'focal' is {self.focal}; gamma must be 0 or more.")
        for name in ("threshold_precision", "normal_quantile"):
            value = getattr(self, name)
            check(value is None or 0 < value < 1, f"Setting '{name}' is {value}; it must be between 0 and 1.")
        check(
            self.threshold_precision is None or self.threshold_for is not None,
            "--threshold-precision needs --threshold-for, the class whose threshold is chosen.",
        )

    @property
    def task_name(self) -> str:
        """The registered task that runs: contrastive regression is similarity."""
        return "similarity" if self.contrastive else self.task

    def resolved(self, device: str, precision: str) -> FinetuneConfig:
        """The recipe with every automatic setting resolved and every path absolute."""
        changes: dict[str, Any] = {"device": device, "precision": precision}
        for name in ("train", "train_target", "dev", "dev_target", "output", "tokenizer", "target_tokenizer"):
            path = getattr(self, name)
            changes[name] = None if path is None else path.absolute()
        changes["model"] = None if self.model is None else absolute_name(self.model)
        return replace(self, **changes)
