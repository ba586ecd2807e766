"""The recipe of a distillation."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from ..core.config import check, check_above_zero, check_at_least, check_below_one, check_not_negative, fit_types
from ..objectives.distillation import Mix
from .finetune_config import FinetuneConfig
from .optimizer import Schedule
from .pretrain_config import PretrainConfig

LR = {"corpus": 5e-4, "rows": 5e-5}


@dataclass(frozen=True)
class DistillConfig:
    """Everything that decides a distillation. Validated on construction: ConfigError names the setting.

    teacher: a model folder. A pre-trained one (masked words) teaches on text: corpus, steps, batch_tokens, eval; a
    fine-tuned one on labelled rows: train, dev, columns, epochs, batch_size. output: the run folder.
    preset: the student: "half" is the teacher with half of its layers; "distilbert" the same without segments and
    pooler; else a name of `maskwright presets` that is as wide as the teacher. layers: how many it has, None for half
    of the teacher's, or the preset's. Layer i of it begins as layer floor(i * teacher's layers / layers).
    temperature, soft_weight, hidden_weight, task_weight: see `objectives.distillation.Mix`.
    prune_heads: the share of the teacher's attention heads, and prune_layers: the number of its highest layers, that
    are taken away for further rows of the report; 0 for no row, None for as many layers as the student lacks.
    lr: None for 5e-4 on text and 5e-5 on rows. The other settings are those of pretrain and finetune.
    """

    teacher: str
    output: Path
    corpus: tuple[str, ...] = ()
    train: Path | None = None
    dev: Path | None = None
    columns: dict[str, str] = field(default_factory=dict)
    preset: str = "half"
    layers: int | None = None
    temperature: float = 2.0
    soft_weight: float = 5.0
    hidden_weight: float = 1.0
    task_weight: float = 2.0
    prune_heads: float = 0.25
    prune_layers: int | None = None
    steps: int = 2000
    epochs: int = 3
    batch_tokens: int = 4096
    batch_size: int = 32
    max_length: int = 128
    accumulation: int = 1
    lr: float | None = None
    warmup: float = 0.1
    schedule: Schedule = "linear"
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    mask_rate: float = 0.15
    holdout: float = 0.01
    eval: tuple[str, ...] = ()
    checkpoint_every: int = 0
    log_every: int = 10
    keep: int = 2
    skip_bad_rows: bool = False
    seed: int = 0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"

    def __post_init__(self) -> None:
        fit_types(self)
        check(
            bool(self.corpus) != (self.train is not None),
            "Give either text (for a pre-trained teacher) or --train with labelled rows (for a fine-tuned one).",
        )
        check_at_least(self, 1, "layers")
        check_above_zero(self, "temperature")
        check_not_negative(self, "soft_weight", "hidden_weight", "task_weight", "prune_layers")
        check(self.soft_weight > 0, "Setting 'soft_weight' is 0: the teacher's answers would not be learnt.")
        check_below_one(self, "prune_heads")
        _ = self.on_text if self.corpus else self.on_rows("classification")  # their checks are ours

    @property
    def mix(self) -> Mix:
        """Temperature and weights."""
        return Mix(self.temperature, self.soft_weight, self.task_weight, self.hidden_weight)

    @property
    def on_text(self) -> PretrainConfig:
        """What the run is as a pre-training: its text, steps and optimiser."""
        lr = LR["corpus"] if self.lr is None else self.lr
        return PretrainConfig(**self._shared_with(PretrainConfig), objective="mlm", lr=lr)

    def on_rows(self, task: str) -> FinetuneConfig:
        """What the run is as a fine-tuning for `task`: its rows, epochs and optimiser."""
        lr = LR["rows"] if self.lr is None else self.lr
        shared = self._shared_with(FinetuneConfig)
        del shared["batch_tokens"]  # there it is the size of a translation's batches
        return FinetuneConfig(**shared, task=task, model=self.teacher, lr=lr)

    def _shared_with(self, cls: type[PretrainConfig] | type[FinetuneConfig]) -> dict[str, Any]:
        """The settings that have the same name there."""
        own = {setting.name for setting in fields(self)} - {"preset", "lr"}
        return {setting.name: getattr(self, setting.name) for setting in fields(cls) if setting.name in own}

    def resolved(self, device: str, precision: str) -> DistillConfig:
        """The same recipe with every automatic setting decided and every path absolute."""
        changes: dict[str, Any] = {"device": device, "precision": precision}
        if self.corpus:
            text = self.on_text.resolved(device, precision)
            changes |= {name: getattr(text, name) for name in ("corpus", "eval", "output", "checkpoint_every", "lr")}
        else:
            rows = self.on_rows("classification").resolved(device, precision)
            changes |= {name: getattr(rows, name) for name in ("train", "dev", "output", "lr")}
        if Path(self.teacher).is_dir():
            changes["teacher"] = str(Path(self.teacher).absolute())
        return replace(self, **changes)
