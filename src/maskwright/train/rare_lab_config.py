"""The recipe of a comparison of ways to find a rare class."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..core.config import check, fit_types

MOST = 0.5


@dataclass(frozen=True)
class RareLabConfig:
    """Everything that decides a comparison. Validated on construction: ConfigError names the setting.

    data: labelled rows, of which the parts are drawn; model: the folder of an encoder to start from; rare_class: its
    name in the label column; all other classes are the rest; rate: its share in every part; seeds: so many rows drawn
    and models trained; max_train_rows: the training rows at most (None: all), and so many dev rows, and twice as many
    test rows; epochs, lr, batch_size, max_length: of every fine-tuning; focal: gamma.
    """

    data: Path
    model: str
    rare_class: str
    output: Path
    rate: float = 0.05
    columns: dict[str, str] = field(default_factory=dict)
    seeds: int = 3
    max_train_rows: int | None = None
    epochs: int = 3
    lr: float = 5e-5
    batch_size: int = 32
    max_length: int = 128
    focal: float = 2.0
    skip_bad_rows: bool = False
    seed: int = 0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"

    def __post_init__(self) -> None:
        fit_types(self)
        check(
            0 < self.rate < MOST,
            f"Setting 'rate' is {self.rate:g}; the share of a rare class lies between 0 and {MOST}, as in 0.05.",
        )
        for name in ("seeds", "epochs", "batch_size"):
            check(getattr(self, name) >= 1, f"Setting '{name}' is {getattr(self, name)}; it must be at least 1.")
        least = self.max_train_rows
        check(least is None or least >= 10, f"Setting 'max_train_rows' is {least}; it must be at least 10.")
        check(self.lr > 0, f"Setting 'lr' is {self.lr}; it must be above 0.")
        check(self.focal >= 0, f"Setting 'focal' is {self.focal}; gamma must be 0 or more.")
        check(self.max_length >= 4, f"Setting 'max_length' is {self.max_length}; it must be at least 4.")

    def resolved(self, device: str, precision: str) -> RareLabConfig:
        """The same recipe with every automatic setting decided and every path absolute."""
        changes: dict[str, Any] = {"device": device, "precision": precision}
        changes |= {name: getattr(self, name).absolute() for name in ("data", "output")}
        if Path(self.model).is_dir():
            changes["model"] = str(Path(self.model).absolute())
        return replace(self, **changes)
