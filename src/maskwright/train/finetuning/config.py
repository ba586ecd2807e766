"""The recipe of a fine-tuning run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from ...core import registry
from ...core.config import (
    LONG_TEXTS,
    NETWORK,
    OPTIMIZATION,
    TASK,
    check,
    check_above_zero,
    check_at_least,
    check_name,
    check_not_negative,
    fill_defaults,
    fit_types,
    misplaced,
    option,
    settings_of,
)
from ...core.errors import ConfigError
from ...hub.published import ENGLISH, absolute_name
from ...hub.recommended import recommended_lr
from ...models.lora_config import LoraConfig
from ...tasks.specs import TaskSettings, spec_of, with_other_packages
from .. import settings
from ..schedules import Schedule

# What can be put between the encoder of a model folder and the new head.
TOP = ("mix_layers", "top_layers", "top_embedding_size")
# A small network on frozen features (anomaly) takes many quick steps. Translation from scratch, as published: 7e-4 is
# (512 * 4000) ** -0.5 (Vaswani et al. 2017, equation 3).
DEFAULT_EPOCHS, DEFAULT_LR = 3, 5e-5
MIN_STEPS, MOST_EPOCHS = 100, 10  # of a training without a number of epochs; see `epochs_for`
DEFAULT_TASK = registry.names("task")[0]


@dataclass(frozen=True)
@with_other_packages
class FinetuneConfig(TaskSettings):
    """Everything that decides a fine-tuning run. Validated on construction: ConfigError names the setting.

    model: what training starts from, by default the built-in `english`; with preset and tokenizer it starts from
    scratch. Without dev a tenth of train is held out, by class.
    train_target, dev_target: the translations of train and dev, line by line, where those are text files; network:
    changes of the preset, by names of ModelConfig, or, of a model folder, the layers between its encoder and the new
    head (TOP); contrastive: task regression without a head, the same as task similarity; average_checkpoints: None
    keeps the best epoch; log and activation_checkpointing may change when a run is resumed. epochs, lr, warmup,
    schedule, batch_tokens and label_smoothing: None becomes the task's own default; of lr, first the adapter's or the
    one that the model recommends; min_steps: None becomes 0 with `epochs`. `maskwright finetune --help` has a line for
    each setting.
    """

    COMMAND: ClassVar[str] = "finetune"

    train: Path = option(
        help="Labeled rows to train on; for translation, also two line-aligned text files.",
        metavar="FILE",
        reads="rows",
    )
    output: Path = option(help=settings.OUTPUT)
    task: str = option(DEFAULT_TASK, "Task to fine-tune for.", is_argument=True)
    model: str | None = option(None, settings.MODEL, default_help=f"{ENGLISH}, or from scratch with --preset")
    preset: str | None = option(None, "Model configuration to train from scratch, without --model.")
    tokenizer: Path | None = option(
        None, "Folder of a saved tokenizer, for a model trained from scratch.", reads="model"
    )
    dev: Path | None = option(
        None,
        "Dev examples that choose the best epoch, in the format of --train.",
        metavar="FILE",
        default_help="10% of --train",
        reads="rows",
    )
    columns: dict[str, str] = option({}, settings.COLUMNS)
    annotator: str | None = option(None, settings.ANNOTATOR, recipe_only=True)
    overlap: settings.Overlap | None = option(None, settings.OVERLAP, recipe_only=True)
    epochs: int = option(
        None,
        settings.EPOCHS,
        help="Number of epochs; without it, small data sets get more (min_steps).",
        by_task={"": DEFAULT_EPOCHS, "anomaly": 30, "translation": 20},
    )
    min_steps: int = option(
        None,
        f"Without --epochs: train for at least this many steps, up to {MOST_EPOCHS} epochs.",
        unit="steps",
        by_task={"": MIN_STEPS, "anomaly": 0, "translation": 0},
        panel=OPTIMIZATION,
        recipe_only=True,
    )
    lr: float = option(
        None,
        settings.LR,
        help=f"Peak learning rate; without it, the one that the model recommends, if any ({ENGLISH}: 2e-4).",
        by_task={"": DEFAULT_LR, "anomaly": 1e-3, "translation": 7e-4},
    )
    train_target: Path | None = option(
        None,
        "Line-aligned translations of --train, if that is a text file.",
        panel=TASK,
        tasks=("translation",),
        reads="rows",
        recipe_only=True,
    )
    dev_target: Path | None = option(
        None,
        "Line-aligned translations of --dev, if that is a text file.",
        panel=TASK,
        tasks=("translation",),
        reads="rows",
        recipe_only=True,
    )
    target_tokenizer: Path | None = option(
        None,
        "Folder of a saved tokenizer of the translations, for a model trained from scratch.",
        default_help="that of --tokenizer",
        reads="model",
        panel=TASK,
        tasks=("translation",),
        recipe_only=True,
    )
    network: dict[str, Any] = option(
        {},
        settings.NETWORK_CHANGES,
        help="Change the preset, as in positions=rotary; with --model, add layers before the head: mix_layers, "
        "top_layers, top_embedding_size. Repeatable.",
    )
    batch_size: int = option(32, settings.BATCH_SIZE)
    accumulation: int = option(None, settings.ACCUMULATION)
    activation_checkpointing: bool = option(False, settings.ACTIVATION_CHECKPOINTING)
    shard: bool = option(False, settings.SHARD)
    reduce_precision: settings.ReducePrecision | None = option(None, settings.REDUCE_PRECISION)
    max_length: int = option(128, settings.MAX_LENGTH)
    batch_tokens: int | None = option(
        None,
        "Maximum tokens per step, source and target counted, instead of --batch-size.",
        unit="tokens",
        panel=TASK,
        tasks=("translation",),
        by_task={"translation": 4096},
        recipe_only=True,
    )
    average_checkpoints: int | None = option(
        None,
        "Average the weights of this many final epochs.",
        default_help="none: keep the best epoch",
        panel=TASK,
        tasks=("translation",),
        recipe_only=True,
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
    metric: str | None = option(
        None, "Dev metric that chooses the best epoch, such as matthews or f1.", default_help="the task's own"
    )
    calibrate: bool = option(
        False,
        "Fit a temperature on the dev examples, for calibrated probabilities.",
        panel=TASK,
        tasks=("classification", "tagging"),
    )
    contrastive: bool = option(
        False,
        "Train sentence embeddings, compared by cosine similarity.",
        panel=TASK,
        tasks=("regression", "similarity"),
    )
    skip_bad_rows: bool = option(False, settings.SKIP_BAD_ROWS)
    checkpoint_every: int = option(0, settings.CHECKPOINT_EVERY, default_help="one epoch")
    log_every: int = option(10, settings.LOG_EVERY)
    log: tuple[str, ...] = option((), settings.LOG)
    tensorboard: bool = option(False, settings.TENSORBOARD)
    seed: int = option(0, settings.SEED)
    device: settings.Device = option("auto", settings.DEVICE)
    precision: settings.Precision = option("auto", settings.PRECISION)

    def __post_init__(self) -> None:
        settings.fill_accumulation(self)
        if self.model is None and self.preset is None:
            object.__setattr__(self, "model", ENGLISH)
        if self.epochs is not None and self.min_steps is None:
            object.__setattr__(self, "min_steps", 0)
        if self.lr is None:
            object.__setattr__(self, "lr", self.dependent_defaults["lr"])
        fill_defaults(self, self.task)
        fit_types(self)
        settings.check_log(self)
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
        check_not_negative(self, "min_steps", "warmup", "weight_decay", "patience", "checkpoint_every")
        check_at_least(self, 4, "max_length")
        check_at_least(self, 1, "average_checkpoints")
        self._check_task()
        self._check_translation()
        self._check_adapter()
        check(
            not self.average_seeds or (self.seeds > 1 and self.model is not None),
            "--average-seeds needs --seeds 2 or more and --model: weights can only be averaged if all seeds "
            "start from the same ones.",
        )

    def _check_task(self) -> None:
        """Check that the settings apply to the task."""
        for task in (self.task, self.task_name):
            wrong = misplaced(self, task)
            if wrong is not None:
                name, setting = wrong
                how = spec_of(task).long_texts if setting.panel == LONG_TEXTS else ""
                reason = f"not for {task}, which {how}" if how else f"for {' and '.join(setting.tasks)}, not {task}"
                raise ConfigError(f"Setting '{name}' is {reason}.")
        spec = spec_of(self.task_name)
        self.of_task(self.task_name)  # its checks are ours
        check(
            spec.has_head or not self.freeze_encoder,
            "--freeze-encoder leaves nothing to train: sentence embeddings come from the encoder.",
        )

    def _check_translation(self) -> None:
        for name in ("train", "dev"):
            check(
                getattr(self, f"{name}_target") is None or getattr(self, name) is not None,
                f"Setting '{name}_target' is the translation of '{name}': pass that too.",
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
            "Setting 'average_checkpoints' uses the last epochs; it excludes --patience and --average-seeds.",
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
        check(
            not spec_of(self.task_name).freezes_encoder,
            f"Setting 'adapter' is not for {self.task}, which trains on a frozen encoder.",
        )

    @property
    def dependent_defaults(self) -> dict[str, Any]:
        """The defaults that depend on other settings: of lr, min_steps and accumulation."""
        usual = settings_of(FinetuneConfig)
        epochs, steps, lr = (usual[name].default_of(self.task) for name in ("epochs", "min_steps", "lr"))
        if self.adapter is not None:
            lr = settings.ADAPTER_LR
        elif lr == DEFAULT_LR:
            lr = recommended_lr(self.model) or lr
        return {"lr": lr, "min_steps": steps if self.epochs == epochs else 0, **settings.SINGLE_PROCESS}

    @property
    def roles(self) -> dict[str, str]:
        """The column mapping, with the annotator and the rule for overlaps."""
        return settings.annotation_roles(self.columns, self.annotator, self.overlap)

    @property
    def lora(self) -> LoraConfig:
        """The settings of the adapter."""
        return settings.lora_of(self)

    @property
    def task_name(self) -> str:
        """The registered task that runs: with `contrastive`, that of sentence embeddings."""
        return spec_of(self.task).contrastive if self.contrastive else self.task

    def resolved(self, device: str, precision: str) -> FinetuneConfig:
        """The recipe with every automatic setting resolved and every path absolute."""
        changes: dict[str, Any] = {"device": device, "precision": precision}
        for name in ("train", "train_target", "dev", "dev_target", "output", "tokenizer", "target_tokenizer"):
            path = getattr(self, name)
            changes[name] = None if path is None else path.absolute()
        changes["model"] = None if self.model is None else absolute_name(self.model)
        return replace(self, **changes)


def epochs_for(epochs: int, min_steps: int, steps_per_epoch: int) -> int:
    """Returns the number of epochs: `epochs`, or more, up to `MOST_EPOCHS`, until there are `min_steps` steps.

    Three epochs of a few hundred examples are a few dozen steps, too few to learn a task (Mosbach et al. 2021; Zhang et
    al. 2021).
    """
    return max(epochs, min(-(-min_steps // max(steps_per_epoch, 1)), MOST_EPOCHS))
