"""The recipe of a distillation."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ...core.config import (
    DATA,
    NETWORK,
    OBJECTIVE,
    check,
    check_above_zero,
    check_at_least,
    check_below_one,
    check_not_negative,
    fit_types,
    option,
)
from ...core.errors import ConfigError
from ...hub.published import absolute_name
from .. import settings
from ..finetuning.config import DEFAULT_TASK, FinetuneConfig
from ..pretraining.config import MASK_RATE, PretrainConfig
from ..schedules import Schedule

if TYPE_CHECKING:
    from ...objectives.distillation import DistillationWeights

HALF, DISTILBERT = "half", "distilbert"
TEACHERS_LAYERS = (HALF, DISTILBERT)  # students initialized with layers of the teacher, whatever it is

LR = {"corpus": 5e-4, "rows": 5e-5, "embeddings": 1e-3}
ON_TEXT = ("corpus", "eval", "output", "checkpoint_every", "lr")  # what PretrainConfig decides
_SENTENCE_ENCODER_ONLY = ("model", "tokenizer", "vocab_size", "start", "embeddings")
_ENCODERS = "Only with a sentence encoder as the teacher."
_STUDENTS = ("preset", "model", "tokenizer", "vocab_size")  # of a student with its own network
SOFT_WEIGHT = {"corpus": 5.0, "rows": 5.0, "embeddings": 1.0}
TASK_WEIGHT = {"corpus": 2.0, "rows": 2.0, "embeddings": 0.1}


@dataclass(frozen=True)
class DistillConfig:
    """Settings of a distillation. Raises ConfigError on construction for wrong ones.

    A pre-trained teacher (masked words) teaches on text: corpus, steps, batch_tokens, eval. A fine-tuned one teaches on
    labeled rows: train, dev, columns, epochs, batch_size. A sentence encoder (its folder has modules.json) teaches its
    embeddings of text; its student may have any preset, with random weights and its own tokenizer. Layer i of a student
    begins as layer floor(i * teacher's layers / layers). The weights are those of
    `objectives.distillation.DistillationWeights`; `maskwright distill --help` has a line for each setting.
    """

    COMMAND: ClassVar[str] = "distill"

    teacher: str = option(
        help="Model folder, or Hugging Face Hub model ID, of the teacher.", metavar="MODEL", reads="model"
    )
    output: Path = option(help=settings.OUTPUT)
    corpus: tuple[str, ...] = option(
        (),
        "Text for a pre-trained teacher or a sentence encoder: files, folders or glob patterns.",
        is_argument=True,
        reads="text",
    )
    train: Path | None = option(None, "Labeled rows for a fine-tuned teacher.", metavar="FILE", reads="rows")
    dev: Path | None = option(
        None, "Labeled rows that choose the best epoch.", metavar="FILE", default_help="10% of --train", reads="rows"
    )
    columns: dict[str, str] = option({}, settings.COLUMNS)
    preset: str = option(
        "half", "Student: half, distilbert, or a preset (as wide as the teacher, unless that is a sentence encoder)."
    )
    model: dict[str, Any] = option({}, settings.NETWORK_CHANGES, help=f"{settings.NETWORK_CHANGES.help} {_ENCODERS}")
    layers: int | None = option(
        None, "Layers of the student.", default_help="half of the teacher's, or the preset's", panel=NETWORK
    )
    tokenizer: Path | None = option(
        None,
        f"Folder of a saved tokenizer of the student. {_ENCODERS}",
        default_help="train WordPiece first",
        reads="model",
        panel=NETWORK,
    )
    vocab_size: int | None = option(
        None,
        f"Vocabulary size of the tokenizer that is trained. {_ENCODERS}",
        default_help="8000 tokens",
        panel=NETWORK,
    )
    start: str | None = option(
        None, f"Initialize the student from an earlier one. {_ENCODERS}", panel=NETWORK, reads="model"
    )
    embeddings: Path | None = option(
        None,
        f"Cache of the teacher's embeddings; several runs may share it. {_ENCODERS}",
        default_help="in the run folder",
        panel=DATA,
    )
    temperature: float = option(2.0, "Softmax temperature of the soft targets.", panel=OBJECTIVE)
    soft_weight: float | None = option(
        None,
        "Weight of the soft-target loss, or of the embeddings of a sentence encoder.",
        default_help="5; 1 with a sentence encoder",
        panel=OBJECTIVE,
    )
    hidden_weight: float = option(1.0, "Weight of the cosine loss of the hidden states.", panel=OBJECTIVE)
    task_weight: float | None = option(
        None,
        "Weight of the loss of labels, or of masked tokens.",
        default_help="2; 0.1 with a sentence encoder",
        panel=OBJECTIVE,
    )
    prune_heads: float = option(
        0.25, "For comparison: prune this fraction of the teacher's attention heads; 0 to skip.", panel=NETWORK
    )
    prune_layers: int | None = option(
        None,
        "For comparison: remove this many of the teacher's top layers; 0 to skip.",
        default_help="as many as the student lacks",
        panel=NETWORK,
    )
    steps: int = option(2000, settings.STEPS, help="Optimizer steps on text.")
    epochs: int = option(3, settings.EPOCHS, help="Number of epochs on labeled rows.")
    batch_tokens: int = option(4096, settings.BATCH_TOKENS, help="Maximum tokens per optimizer step on text.")
    batch_size: int = option(32, settings.BATCH_SIZE, help="Batch size in examples, on labeled rows.")
    max_length: int = option(128, settings.MAX_LENGTH)
    accumulation: int = option(None, settings.ACCUMULATION)
    reduce_precision: settings.ReducePrecision | None = option(None, settings.REDUCE_PRECISION)
    lr: float | None = option(
        None, settings.LR, default_help="5e-4 on text, 5e-5 on labeled rows, 1e-3 with a sentence encoder"
    )
    warmup: float = option(0.1, settings.WARMUP)
    schedule: Schedule = option("linear", settings.SCHEDULE)
    weight_decay: float = option(0.01, settings.WEIGHT_DECAY)
    clip_norm: float = option(1.0, settings.CLIP_NORM)
    mask_rate: float = option(0.15, MASK_RATE)
    holdout: float = option(0.01, settings.HOLDOUT)
    eval: tuple[str, ...] = option((), settings.EVAL)
    checkpoint_every: int = option(
        0, settings.CHECKPOINT_EVERY, default_help="a twentieth of --steps on text, one epoch on rows"
    )
    log_every: int = option(10, settings.LOG_EVERY)
    keep: int = option(2, settings.KEEP)
    log: tuple[str, ...] = option((), settings.LOG)
    skip_bad_rows: bool = option(False, settings.SKIP_BAD_ROWS)
    seed: int = option(0, settings.SEED)
    device: settings.Device = option("auto", settings.DEVICE)
    precision: settings.Precision = option("auto", settings.PRECISION)

    def __post_init__(self) -> None:
        settings.fill_accumulation(self)
        fit_types(self)
        settings.check_log(self)
        check(
            bool(self.corpus) != (self.train is not None),
            "Pass either CORPUS, text for a pre-trained teacher, or --train, labeled rows for a fine-tuned one.",
        )
        check_at_least(self, 1, "layers")
        check_above_zero(self, "temperature")
        check_not_negative(self, "soft_weight", "hidden_weight", "task_weight", "prune_layers")
        check(self.soft_weight != 0, "Setting 'soft_weight' is 0: the teacher's predictions would not be learned.")
        check_below_one(self, "prune_heads")
        own = [name for name in ("model", "tokenizer", "vocab_size") if getattr(self, name)]
        check(
            not own or (self.start is None and self.preset not in TEACHERS_LAYERS),
            f"Setting '{''.join(own[:1])}' needs a student with a separate network: specify its preset (half and "
            "distilbert are initialized from the teacher) and remove start.",
        )
        _ = self.on_text if self.corpus else self.on_rows(DEFAULT_TASK)  # their checks are ours

    @property
    def dependent_defaults(self) -> dict[str, Any]:
        return settings.SINGLE_PROCESS

    @property
    def mix(self) -> DistillationWeights:
        from ...objectives.distillation import DistillationWeights

        assert self.soft_weight is not None and self.task_weight is not None, "the recipe is not resolved"
        return DistillationWeights(self.temperature, self.soft_weight, self.task_weight, self.hidden_weight)

    @property
    def on_embeddings(self) -> PretrainConfig:
        """The same for a sentence encoder, with the student's network and vocabulary."""
        students = {name: value for name in _STUDENTS if (value := getattr(self, name)) is not None}
        if self.preset in TEACHERS_LAYERS:
            del students["preset"]
        lr = LR["embeddings"] if self.lr is None else self.lr
        return replace(self.on_text, **students, lr=lr, dropout=0.0, keep_duplicates=True)

    @property
    def on_text(self) -> PretrainConfig:
        """What the run is as a pre-training: its text, steps and optimizer."""
        lr = LR["corpus"] if self.lr is None else self.lr
        return PretrainConfig(**self._shared_with(PretrainConfig), objective="mlm", lr=lr)

    def on_rows(self, task: str) -> FinetuneConfig:
        """What the run is as a fine-tuning for `task`: its rows, epochs and optimizer."""
        lr = LR["rows"] if self.lr is None else self.lr
        shared = self._shared_with(FinetuneConfig)
        del shared["batch_tokens"]  # there it is the size of a translation's batches
        return FinetuneConfig(**shared, task=task, model=self.teacher, lr=lr)

    def _shared_with(self, cls: type[PretrainConfig] | type[FinetuneConfig]) -> dict[str, Any]:
        """The settings that have the same name and meaning there."""
        own = {setting.name for setting in fields(self)} - {"lr", "start", *_STUDENTS}
        return {setting.name: getattr(self, setting.name) for setting in fields(cls) if setting.name in own}

    def resolved(self, device: str, precision: str, by_embeddings: bool = False) -> DistillConfig:
        """The same recipe with every automatic setting decided and every path absolute.

        by_embeddings: whether the teacher is a sentence encoder. Raises ConfigError for settings that need one.
        """
        kind = "embeddings" if by_embeddings else "corpus" if self.corpus else "rows"
        changes: dict[str, Any] = {"device": device, "precision": precision}
        for name, usual in (("soft_weight", SOFT_WEIGHT), ("task_weight", TASK_WEIGHT)):
            changes[name] = usual[kind] if getattr(self, name) is None else getattr(self, name)
        if by_embeddings:
            text = self.on_embeddings.resolved(device, precision)
            changes |= {name: getattr(text, name) for name in (*ON_TEXT, "tokenizer")}
            changes["embeddings"] = self.embeddings.absolute() if self.embeddings else None
        elif given := [name for name in _SENTENCE_ENCODER_ONLY if getattr(self, name)]:
            raise ConfigError(
                f"Setting '{given[0]}' needs text and a sentence encoder as the teacher (its folder has modules.json): "
                "remove it, or specify such a teacher."
            )
        elif self.corpus:
            text = self.on_text.resolved(device, precision)
            changes |= {name: getattr(text, name) for name in ON_TEXT}
        else:
            rows = self.on_rows(DEFAULT_TASK).resolved(device, precision)
            changes |= {name: getattr(rows, name) for name in ("train", "dev", "output", "lr")}
        for name in ("teacher", "start"):
            if (folder := getattr(self, name)) is not None:
                changes[name] = absolute_name(folder)
        return replace(self, **changes)
