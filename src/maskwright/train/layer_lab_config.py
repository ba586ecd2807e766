"""The recipe of a layer lab."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from ..core.config import check_above_zero, check_at_least, check_below_one, check_not_negative, fit_types
from .finetune_config import FinetuneConfig
from .optimizer import Schedule


@dataclass(frozen=True)
class LayerLabConfig:
    """Everything that decides a layer lab. Validated on construction: ConfigError names the setting.

    model: the folder whose layers are compared; train, dev, columns, max_length, skip_bad_rows: as for fine-tuning a
    tagger. probe: the tagger on the frozen features; probe_size: of a BiLSTM in each direction, probe_layers of them;
    dropout: of the probe; crf: it judges the tags of a sentence together.
    each_layer: a row for every single layer as well; also_finetune: and one for the fine-tuned model, with
    finetune_epochs and finetune_lr.
    seeds: so many probes of each row, with seeds seed, seed + 1, ...; epochs, lr, batch_size, warmup, schedule,
    weight_decay, clip_norm: of every probe.
    feature_dtype: how features are kept; feature_memory: gigabytes (10^9 bytes) of them that stay in memory, larger
    ones are mapped from files in the run folder. precision: in which the encoder computes; probes compute in fp32.
    """

    model: str
    train: Path
    output: Path
    dev: Path | None = None
    columns: dict[str, str] = field(default_factory=dict)
    probe: Literal["linear", "bilstm"] = "linear"
    probe_size: int = 128
    probe_layers: int = 1
    dropout: float = 0.1
    crf: bool = False
    each_layer: bool = False
    also_finetune: bool = False
    finetune_epochs: int = 3
    finetune_lr: float = 5e-5
    seeds: int = 3
    epochs: int = 10
    lr: float = 2e-3
    batch_size: int = 32
    max_length: int = 128
    warmup: float = 0.1
    schedule: Schedule = "linear"
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    feature_dtype: Literal["fp32", "bf16"] = "fp32"
    feature_memory: float = 2.0
    skip_bad_rows: bool = False
    seed: int = 0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"

    def __post_init__(self) -> None:
        fit_types(self)
        check_at_least(self, 1, "probe_size", "probe_layers", "finetune_epochs")
        check_below_one(self, "dropout")
        check_above_zero(self, "finetune_lr")
        check_not_negative(self, "feature_memory")
        _ = self.probing  # its checks are ours

    @property
    def probing(self) -> FinetuneConfig:
        """What the run is as the training of a tagger: its rows, epochs and optimiser."""
        names = {setting.name for setting in fields(self)} & {setting.name for setting in fields(FinetuneConfig)}
        shared = {name: getattr(self, name) for name in names}
        return FinetuneConfig(**shared, task="tagging")

    @property
    def finetuning(self) -> FinetuneConfig:
        """The fine-tuning that stands beside the probes: the same rows and seeds, in a folder inside the run's."""
        return replace(
            self.probing,
            output=self.output / "finetuned",
            epochs=self.finetune_epochs,
            lr=self.finetune_lr,
        )

    def resolved(self, device: str, precision: str) -> LayerLabConfig:
        """The same recipe with every automatic setting decided and every path absolute."""
        rows = self.probing.resolved(device, precision)
        changes: dict[str, Any] = {"device": device, "precision": precision}
        changes |= {name: getattr(rows, name) for name in ("model", "train", "dev", "output")}
        return replace(self, **changes)
