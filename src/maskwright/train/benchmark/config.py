"""The recipe of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ...core.config import check, check_above_zero, check_at_least, fit_types

# Devlin et al. 2019, appendix A.3: what worked well across all tasks. Learning rates in the paper's order.
GRID: Mapping[str, tuple[Any, ...]] = {"batch_size": (16, 32), "lr": (5e-5, 3e-5, 2e-5), "epochs": (2, 3, 4)}
FIXED = {"batch_size": 32, "lr": 3e-5, "epochs": 3}


class Setting(NamedTuple):
    """What a grid varies."""

    batch_size: int
    lr: float
    epochs: int

    @property
    def words(self) -> str:
        """For people."""
        return f"batch {self.batch_size}, lr {self.lr:g}, {self.epochs} epoch{'s' * (self.epochs > 1)}"

    @property
    def folder(self) -> str:
        """batch-32-lr-3e-05-epochs-3."""
        return f"batch-{self.batch_size}-lr-{self.lr:g}-epochs-{self.epochs}"


@dataclass(frozen=True)
class BenchmarkConfig:
    """Everything that decides a benchmark. Validated on construction: ConfigError names the setting.

    data: the folder with the files; model: what every run starts from; tasks: names of parts, all that are found by
    default; seeds: so many runs of each part, with seeds seed, seed + 1, ...; epochs, lr, batch_size: None for 3, 3e-5
    and 32, or with `grid` for all that the published grid has; max_length: None for 128, and 384 for questions;
    max_train_rows: a cap on the training rows of each part, drawn once by the seed, 0 for none; grid: try every setting
    with the first seed and take the best on dev; submission: write the leaderboard files of GLUE.
    """

    benchmark: Literal["glue", "squad", "conll", "swag"]
    data: Path
    model: str
    output: Path
    tasks: tuple[str, ...] = ()
    seeds: int = 1
    epochs: int | None = None
    lr: float | None = None
    batch_size: int | None = None
    max_length: int | None = None
    max_train_rows: int = 0
    grid: bool = False
    submission: bool = False
    skip_bad_rows: bool = False
    seed: int = 0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"

    def __post_init__(self) -> None:
        fit_types(self)
        check_at_least(self, 1, "seeds", "epochs", "batch_size")
        check_above_zero(self, "lr")
        check_at_least(self, 4, "max_length")
        check(
            self.max_train_rows == 0 or self.max_train_rows >= 2,
            f"Setting 'max_train_rows' is {self.max_train_rows}; it must be 0, for all rows, or at least 2.",
        )
        check(
            not self.submission or self.benchmark == "glue",
            f"--submission writes the leaderboard files of glue; {self.benchmark} has none.",
        )

    @property
    def settings(self) -> list[Setting]:
        """The settings to try, in order: one, or the grid, narrowed to what is given."""
        ways = [
            (given,) if (given := getattr(self, name)) is not None else GRID[name] if self.grid else (FIXED[name],)
            for name in Setting._fields
        ]
        return [Setting(*way) for way in product(*ways)]

    @property
    def all_seeds(self) -> list[int]:
        """The seeds of the chosen setting."""
        return [self.seed + number for number in range(self.seeds)]

    def resolved(self, device: str, precision: str) -> BenchmarkConfig:
        """The same recipe with every automatic setting decided and every path absolute."""
        changes: dict[str, Any] = {"device": device, "precision": precision}
        changes |= {"data": self.data.absolute(), "output": self.output.absolute()}
        if Path(self.model).is_dir():
            changes["model"] = str(Path(self.model).absolute())
        return replace(self, **changes)
