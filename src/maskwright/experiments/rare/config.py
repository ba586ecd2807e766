"""The recipe of a comparison of methods for class imbalance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from ...core.config import OPTIMIZATION, check, check_above_zero, check_at_least, fit_types, option
from ...hub.published import absolute_name
from ...train import settings

MOST = 0.5


@dataclass(frozen=True)
class RareLabConfig:
    """Everything that decides a comparison. Validated on construction: ConfigError names the setting.

    data: labeled rows, from which the splits are sampled; model: the model folder to start from; rare_class: its name
    in the label column; all other classes are the rest; rate: its fraction in every split; seeds: number of samples and
    models; max_train_rows: maximum training rows (None: all), with as many dev and twice as many test rows; epochs, lr,
    batch_size, max_length: of every fine-tuning; focal: gamma.
    """

    COMMAND: ClassVar[str] = "experiment rare"

    data: Path = option(help="Labeled rows, from which train, dev and test are sampled.", metavar="FILE", reads="rows")
    model: str = option(help=settings.MODEL)
    rare_class: str = option(help="Class to find.", metavar="CLASS")
    output: Path = option(help=settings.OUTPUT)
    rate: float = option(0.05, "Fraction of the rare class in each split.")
    columns: dict[str, str] = option({}, settings.COLUMNS)
    seeds: int = option(3, settings.SEEDS, help="Number of seeds, for samples of rows and for models.")
    max_train_rows: int | None = option(
        None, "Maximum training rows; as many dev examples, twice as many test rows.", default_help="all rows"
    )
    epochs: int = option(3, settings.EPOCHS)
    lr: float = option(5e-5, settings.LR)
    batch_size: int = option(32, settings.BATCH_SIZE)
    max_length: int = option(128, settings.MAX_LENGTH)
    focal: float = option(2.0, "Gamma of the focal loss.", panel=OPTIMIZATION)
    skip_bad_rows: bool = option(False, settings.SKIP_BAD_ROWS)
    seed: int = option(0, settings.SEED)
    device: settings.Device = option("auto", settings.DEVICE)
    precision: settings.Precision = option("auto", settings.PRECISION)

    def __post_init__(self) -> None:
        fit_types(self)
        check(
            0 < self.rate < MOST,
            f"Setting 'rate' is {self.rate:g}; it must be between 0 and {MOST}, as in 0.05.",
        )
        check_at_least(self, 1, "seeds", "epochs", "batch_size")
        check_at_least(self, 10, "max_train_rows")
        check_above_zero(self, "lr")
        check(self.focal >= 0, f"Setting 'focal' is {self.focal}; gamma must be 0 or more.")
        check_at_least(self, 4, "max_length")

    def resolved(self, device: str, precision: str) -> RareLabConfig:
        """The recipe with every automatic setting resolved and every path absolute."""
        changes: dict[str, Any] = {"device": device, "precision": precision}
        changes |= {name: getattr(self, name).absolute() for name in ("data", "output")}
        changes["model"] = absolute_name(self.model)
        return replace(self, **changes)
