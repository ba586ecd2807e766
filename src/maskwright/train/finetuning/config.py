"""The recipe of a fine-tuning run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from ...core import registry
from ...core.config import (
    DATA,
    LONG_TEXTS,
    NETWORK,
    OPTIMIZATION,
    TASK,
    check,
    check_above_zero,
    check_at_least,
    check_name,
    check_not_negative,
    default_of,
    fill_defaults,
    fit_types,
    misplaced,
    option,
    settings_of,
)
from ...core.errors import ConfigError
from ...core.util import plural
from ...hub.published import ENGLISH, absolute_name, recommended_lr
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
TASKS = registry.names("task")
DEFAULT_TASK = TASKS[0]


@dataclass(frozen=True)
@with_other_packages
class FinetuneConfig(TaskSettings):
    """Settings of a fine-tuning run. Raises ConfigError on construction for wrong ones.

    epochs, lr, warmup, schedule, batch_tokens and label_smoothing: None becomes the task's own default; of lr, first
    the adapter's or the one that the model recommends. network: changes of the preset, by names of ModelConfig, or, of
    a model folder, the layers between its encoder and the new head (TOP). log and activation_checkpointing may change
    when a run is resumed. `maskwright finetune --help` has a line for each setting.
    """

    COMMAND: ClassVar[str] = "finetune"

    train: Path = option(
        help="Labeled rows to train on; for translation, also two line-aligned text files.",
        metavar="FILE",
        reads="rows",
    )
    output: Path = option(help=settings.OUTPUT)
    task: str = option(DEFAULT_TASK, f"Task to fine-tune for: {', '.join(TASKS)}.", is_argument=True)
    model: str | None = option(None, settings.MODEL, default_help=f"{ENGLISH}; none with --preset")
    preset: str | None = option(None, "Model configuration to train from scratch.")
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
        0, "Stop after this many epochs without a better dev score; 0 to run all.", panel=OPTIMIZATION, recipe_only=True
    )
    seeds: int = option(1, settings.SEEDS)
    average_seeds: bool = option(
        False,
        "Keep the average of the seeds' weights (model soup), not the best seed.",
        panel=OPTIMIZATION,
        recipe_only=True,
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
        False, "Calibrate probabilities by a temperature.", panel=TASK, tasks=("classification", "tagging")
    )
    contrastive: bool = option(
        False,
        "Train sentence embeddings, compared by cosine similarity.",
        panel=TASK,
        tasks=("regression", "similarity"),
        recipe_only=True,
    )
    hard_negatives: int = option(
        0,
        "Second texts of other pairs to find for each pair that belongs together and add as negatives.",
        panel=TASK,
        recipe_only=True,
        tasks=("regression", "similarity"),
    )
    miner: str | None = option(
        None,
        "Sentence encoder that finds them.",
        metavar="MODEL",
        default_help="--model",
        panel=TASK,
        recipe_only=True,
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
        check_not_negative(
            self, "min_steps", "warmup", "weight_decay", "patience", "checkpoint_every", "hard_negatives"
        )
        check_at_least(self, 4, "max_length")
        check_at_least(self, 1, "average_checkpoints")
        self._check_task()
        self._check_translation()
        self._check_adapter()
        check(
            not self.average_seeds or (self.seeds > 1 and self.model is not None),
            "Setting 'average_seeds' needs --seeds 2 or more and --model: weights can only be averaged if all seeds "
            "start from the same ones.",
        )

    def _check_task(self) -> None:
        for task in (self.task, self.task_name):
            wrong = misplaced(self, task)
            if wrong is not None:
                name, setting = wrong
                how = spec_of(task).long_texts if setting.panel == LONG_TEXTS else ""
                reason = f"not for {task}, which {how}" if how else f"for {' and '.join(setting.tasks)}, not {task}"
                raise ConfigError(f"Setting '{name}' is {reason}.")
        spec = spec_of(self.task_name)
        check(
            not self.hard_negatives or self.task_name == "similarity" or self.encoder == "cross",
            "Setting 'hard_negatives' is for encoders of pairs that belong together: add encoder.",
        )
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
            "Setting 'average_checkpoints' uses the last epochs; it excludes patience and average_seeds.",
        )

    def _check_adapter(self) -> None:
        settings.check_adapter(self)
        if self.adapter is None:
            return
        check(self.preset is None, "--adapter requires --model: an adapter changes a trained model.")
        check(not self.freeze_encoder, "--adapter and --freeze-encoder exclude each other.")
        check(
            not self.average_seeds,
            "Setting 'average_seeds' averages whole models; adapters of several seeds cannot be averaged.",
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
        return settings.lora_of(self)

    @property
    def task_name(self) -> str:
        """The registered task that runs: the one that trains the chosen encoder."""
        encoder = "dense" if self.contrastive else self.encoder
        return spec_of(self.task).encoders.get(encoder or "", self.task)

    def resolved(self, device: str, precision: str) -> FinetuneConfig:
        """The recipe with every automatic setting resolved and every path absolute."""
        changes: dict[str, Any] = {"device": device, "precision": precision}
        for name in ("train", "train_target", "dev", "dev_target", "output", "tokenizer", "target_tokenizer"):
            path = getattr(self, name)
            changes[name] = None if path is None else path.absolute()
        for name in ("model", "miner"):
            value = getattr(self, name)
            changes[name] = None if value is None else absolute_name(value)
        return replace(self, **changes)


def epochs_for(epochs: int, min_steps: int, steps_per_epoch: int) -> int:
    """Returns the number of epochs: `epochs`, or more, up to `MOST_EPOCHS`, until there are `min_steps` steps.

    Three epochs of a few hundred examples are a few dozen steps, too few to learn a task (Mosbach et al. 2021; Zhang et
    al. 2021).
    """
    return max(epochs, min(-(-min_steps // max(steps_per_epoch, 1)), MOST_EPOCHS))


# -- The recipe of a multi-task fine-tuning ----------------------------------------------------------------------------


_SAME = settings_of(FinetuneConfig)


@dataclass(frozen=True)
class MultiTaskConfig:
    """Settings of a multi-task fine-tuning. Raises ConfigError on construction for wrong ones.

    multi_task: labeled files, one per task, of the type `task` or of the type in a prefix, as in "regression:a.tsv";
    dev: a dev file for each, in the same order; empty to hold out a tenth of each file. The other settings are those of
    FinetuneConfig and apply to every task; class_weight and multi_label to classification, crf to tagging.
    """

    COMMAND: ClassVar[str] = "finetune"

    multi_task: tuple[str, ...] = option(
        help="Instead of --train: labeled files, one per task, for a shared encoder.",
        metavar="[TASK:]FILE ...",
        default_help="none: one task",
        panel=DATA,
    )
    output: Path = option(help=settings.OUTPUT)
    task: str = option(DEFAULT_TASK, _SAME["task"])
    model: str | None = option(None, _SAME["model"])
    preset: str | None = option(None, _SAME["preset"])
    tokenizer: Path | None = option(None, _SAME["tokenizer"])
    dev: tuple[Path, ...] = option((), _SAME["dev"])
    columns: dict[str, str] = option({}, settings.COLUMNS)
    epochs: int = option(3, settings.EPOCHS)
    lr: float = option(5e-5, settings.LR)
    batch_size: int = option(32, settings.BATCH_SIZE)
    accumulation: int = option(None, settings.ACCUMULATION)
    max_length: int = option(128, settings.MAX_LENGTH)
    warmup: float = option(0.1, settings.WARMUP)
    schedule: Schedule = option("linear", settings.SCHEDULE)
    weight_decay: float = option(0.01, settings.WEIGHT_DECAY)
    clip_norm: float = option(1.0, settings.CLIP_NORM)
    patience: int = option(0, _SAME["patience"])
    seeds: int = option(1, settings.SEEDS)
    average_seeds: bool = option(False, _SAME["average_seeds"])
    freeze_encoder: bool = option(False, _SAME["freeze_encoder"])
    class_weight: Literal["balanced"] | None = option(None, _SAME["class_weight"])
    multi_label: bool | None = option(None, _SAME["multi_label"])
    crf: bool = option(False, _SAME["crf"])
    skip_bad_rows: bool = option(False, settings.SKIP_BAD_ROWS)
    checkpoint_every: int = option(0, _SAME["checkpoint_every"])
    log_every: int = option(10, settings.LOG_EVERY)
    log: tuple[str, ...] = option((), settings.LOG)
    tensorboard: bool = option(False, settings.TENSORBOARD)
    seed: int = option(0, settings.SEED)
    device: settings.Device = option("auto", settings.DEVICE)
    precision: settings.Precision = option("auto", settings.PRECISION)

    def __post_init__(self) -> None:
        settings.fill_accumulation(self)
        fit_types(self)
        settings.check_log(self)
        check(
            len(self.multi_task) >= 2,
            f"--multi-task needs two files or more, and has {len(self.multi_task)}; for one task use --train.",
        )
        check(
            len(self.dev) in (0, len(self.multi_task)),
            f"--dev has {plural(len(self.dev), 'file')} for {len(self.multi_task)} tasks: pass one for each, in the "
            "same order, or none.",
        )
        files = Counter((kind, path.resolve()) for kind, path in map(self._split, self.multi_task))
        same = [f"{path} ({kind})" for (kind, path), count in files.items() if count > 1]
        check(not same, f"--multi-task has {', '.join(same)} twice: each file must be a separate task.")
        kinds = {part.task for part in self.parts().values()}  # the checks of each part are ours
        frozen = sorted(kind for kind in kinds if spec_of(kind).freezes_encoder)
        check(
            not frozen,
            f"--multi-task trains a shared encoder, and {''.join(frozen[:1])} freezes its encoder: fine-tune "
            f"{''.join(frozen[:1])} separately.",
        )
        for name in _OF_SOME:
            check(
                not getattr(self, name) or any(_SAME[name].is_for(kind) for kind in kinds),
                f"Setting '{name}' is for {' and '.join(_SAME[name].tasks)}, and no task has that type.",
            )

    @property
    def dependent_defaults(self) -> dict[str, Any]:
        return settings.SINGLE_PROCESS

    def parts(self) -> dict[str, FinetuneConfig]:
        """The fine-tuning recipe of each task, by name."""
        shared = {setting.name for setting in fields(FinetuneConfig)} & {setting.name for setting in fields(self)}
        values = {name: getattr(self, name) for name in shared - {"dev", "task"}}
        found = {}
        split = [self._split(entry) for entry in self.multi_task]
        for number, (name, (kind, path)) in enumerate(zip(names([path for _, path in split]), split, strict=True)):
            others = {setting: _UNSET[setting] for setting in _OF_SOME if not _SAME[setting].is_for(kind)}
            dev = self.dev[number] if self.dev else None
            found[name] = FinetuneConfig(**{**values, **others, "train": path, "dev": dev, "task": kind})
        return found

    def resolved(self, device: str, precision: str) -> MultiTaskConfig:
        parts = [part.resolved(device, precision) for part in self.parts().values()]
        return replace(
            self,
            device=parts[0].device,
            precision=parts[0].precision,
            output=parts[0].output,
            tokenizer=parts[0].tokenizer,
            model=parts[0].model,
            multi_task=tuple(
                str(part.train) if part.task == self.task else f"{part.task}:{part.train}" for part in parts
            ),
            dev=tuple(part.dev for part in parts if part.dev is not None),
        )

    def _split(self, entry: str) -> tuple[str, Path]:
        kind, colon, path = entry.partition(":")
        if colon and path and kind in registry.names("task"):
            return kind, Path(path)
        is_kind = bool(colon) and re.fullmatch(r"[\w-]{2,}", kind) is not None and not Path(entry).exists()
        check(not is_kind, f"--multi-task {entry}: " + registry.unknown_name("task", kind, registry.names("task")))
        return self.task, Path(entry)


# Settings that only some tasks have, and their values for the others.
_OF_SOME = [one.name for one in fields(MultiTaskConfig) if one.name in _SAME and _SAME[one.name].tasks]
_UNSET = {one.name: default_of(one) for one in fields(MultiTaskConfig)}


def names(paths: Sequence[Path]) -> list[str]:
    """A unique name for each file, for folders and the log: its stem, else with its folder, else with a number.

    Names that differ only in case count as equal, because some file systems ignore case.
    """
    stems = [_plain(path.name.partition(".")[0]) for path in paths]
    folders = [
        _plain((path.absolute().parent.resolve() if ".." in path.parts else path.absolute().parent).name)
        for path in paths
    ]
    both = [f"{folder}-{stem}" for folder, stem in zip(folders, stems, strict=True)]
    for found in (stems, folders, both):
        if len({name.casefold() for name in found}) == len(found):
            return found
    return [f"{name}-{number}" for number, name in enumerate(both, start=1)]


def _plain(name: str) -> str:
    plain = re.sub(r"[^\w-]+", "-", name).strip("-") or "task"
    return f"{plain}-task" if plain.casefold() == "eval" else plain  # the log calls dev scores eval_...
