"""The recipe of a comparison of ways to find a rare class."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..core.config import check, check_above_zero, check_at_least, fit_types

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
        check_at_least(self, 1, "seeds", "epochs", "batch_size")
        check_at_least(self, 10, "max_train_rows")
        check_above_zero(self, "lr")
        check(self.focal >= 0, f"Setting 'focal' is {self.focal}; gamma must be 0 or more.")
        check_at_least(self, 4, "max_length")

    def resolved(self, device: str, precision: str) -> RareLabConfig:
        """The same recipe with every automatic setting decided and every path absolute."""
        changes: dict[str, Any] = {"device": device, "precision": precision}
        changes |= {name: getattr(self, name).absolute() for name in ("data", "output")}
        if Path(self.model).is_dir():
            changes["model"] = str(Path(self.model).absolute())
        return replace(self, **changes)
