"""The recipe of a layer-wise probing experiment."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from ...core.config import (
    HARDWARE,
    NETWORK,
    OPTIMIZATION,
    check_above_zero,
    check_at_least,
    check_below_one,
    check_not_negative,
    fit_types,
    option,
)
from ...tasks.specs import task_for
from ...train import settings
from ...train.finetuning.config import FinetuneConfig
from ...train.schedules import Schedule

TASK = task_for("tagged")  # the task of the probes


@dataclass(frozen=True)
class LayerLabConfig:
    """Everything that decides a layer-wise probing run. Validated on construction: ConfigError names the setting.

    model: the model whose layers are compared; train, dev, columns, max_length, skip_bad_rows: as for fine-tuning a
    tagger. probe: the tagger on the frozen features; probe_size: hidden size of a BiLSTM in each direction,
    probe_layers: its number of layers; dropout: of the probe; crf: add a CRF to the probe.
    each_layer: also a row for every single layer; also_finetune: also a row for the fine-tuned model, trained with
    finetune_epochs and finetune_lr.
    seeds: number of probes of each row, with seeds seed, seed + 1, ...; epochs, lr, batch_size, warmup, schedule,
    weight_decay, clip_norm: of every probe.
    feature_dtype: data type of stored features; feature_memory: gigabytes (10^9 bytes) of features in memory, larger
    ones are memory-mapped from the run folder. precision: of the encoder; probes compute in fp32.
    """

    COMMAND: ClassVar[str] = "experiment layers"

    model: str = option(
        help="Model folder, or Hugging Face Hub model ID, whose layers are compared.", is_argument=True, reads="model"
    )
    train: Path = option(help="Tagged sentences to train on.", metavar="FILE", reads="rows")
    output: Path = option(help=settings.OUTPUT)
    dev: Path | None = option(
        None, "Tagged sentences to score on.", metavar="FILE", default_help="10% of --train", reads="rows"
    )
    columns: dict[str, str] = option({}, settings.COLUMNS)
    probe: Literal["linear", "bilstm"] = option("linear", "Tagger on the features.")
    probe_size: int = option(128, "Units of a BiLSTM probe, in each direction.", panel=NETWORK)
    probe_layers: int = option(1, "Number of layers of a BiLSTM probe.", panel=NETWORK)
    dropout: float = option(0.1, "Dropout of the probe.", panel=OPTIMIZATION)
    crf: bool = option(False, "Add a conditional random field (CRF) to the probe.")
    each_layer: bool = option(False, "Also evaluate each layer separately.")
    also_finetune: bool = option(False, "Also evaluate the fine-tuned model.")
    finetune_epochs: int = option(3, "Number of fine-tuning epochs.", panel=OPTIMIZATION)
    finetune_lr: float = option(5e-5, "Peak learning rate of fine-tuning.", panel=OPTIMIZATION)
    seeds: int = option(3, settings.SEEDS, help="Number of probes per row; report mean and deviation.")
    epochs: int = option(10, settings.EPOCHS, help="Number of epochs per probe.")
    lr: float = option(2e-3, settings.LR, help="Peak learning rate of a probe.")
    batch_size: int = option(32, settings.BATCH_SIZE)
    max_length: int = option(128, settings.MAX_LENGTH)
    warmup: float = option(0.1, settings.WARMUP)
    schedule: Schedule = option("linear", settings.SCHEDULE)
    weight_decay: float = option(0.01, settings.WEIGHT_DECAY)
    clip_norm: float = option(1.0, settings.CLIP_NORM)
    feature_dtype: Literal["fp32", "bf16"] = option(
        "fp32", "Data type of stored features; bf16 takes half the memory.", panel=HARDWARE
    )
    feature_memory: float = option(
        2.0, "Features kept in memory, in gigabytes; larger ones go to files.", unit="GB", panel=HARDWARE
    )
    skip_bad_rows: bool = option(False, settings.SKIP_BAD_ROWS)
    seed: int = option(0, settings.SEED)
    device: settings.Device = option("auto", settings.DEVICE)
    precision: settings.Precision = option("auto", settings.PRECISION)

    def __post_init__(self) -> None:
        fit_types(self)
        check_at_least(self, 1, "probe_size", "probe_layers", "finetune_epochs")
        check_below_one(self, "dropout")
        check_above_zero(self, "finetune_lr")
        check_not_negative(self, "feature_memory")
        _ = self.probing  # its checks are ours

    @property
    def probing(self) -> FinetuneConfig:
        """The fine-tuning recipe of the probes: rows, epochs and optimizer."""
        names = {setting.name for setting in fields(self)} & {setting.name for setting in fields(FinetuneConfig)}
        shared = {name: getattr(self, name) for name in names}
        return FinetuneConfig(**shared, task=TASK)

    @property
    def finetuning(self) -> FinetuneConfig:
        """The fine-tuning that is compared with the probes: the same rows and seeds, in a subfolder of the run."""
        return replace(
            self.probing,
            output=self.output / "finetuned",
            epochs=self.finetune_epochs,
            lr=self.finetune_lr,
        )

    def resolved(self, device: str, precision: str) -> LayerLabConfig:
        """The recipe with every automatic setting resolved and every path absolute."""
        rows = self.probing.resolved(device, precision)
        changes: dict[str, Any] = {"device": device, "precision": precision}
        changes |= {name: getattr(rows, name) for name in ("model", "train", "dev", "output")}
        return replace(self, **changes)
