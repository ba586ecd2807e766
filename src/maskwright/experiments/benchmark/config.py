"""The recipe of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from ...core.config import check, check_above_zero, check_at_least, fit_types, option
from ...hub.published import absolute_name
from ...train import settings

# Devlin et al. 2019, appendix A.3: what worked well across all tasks. Learning rates in the paper's order.
GRID: Mapping[str, tuple[Any, ...]] = {"batch_size": (16, 32), "lr": (5e-5, 3e-5, 2e-5), "epochs": (2, 3, 4)}
FIXED = {"batch_size": 32, "lr": 3e-5, "epochs": 3}


class Setting(NamedTuple):
    """Hyperparameters of a grid search."""

    batch_size: int
    lr: float
    epochs: int

    @property
    def words(self) -> str:
        """The setting as text."""
        return f"batch {self.batch_size}, lr {self.lr:g}, {self.epochs} epoch{'s' * (self.epochs > 1)}"

    @property
    def folder(self) -> str:
        """batch-32-lr-3e-05-epochs-3."""
        return f"batch-{self.batch_size}-lr-{self.lr:g}-epochs-{self.epochs}"


@dataclass(frozen=True)
class BenchmarkConfig:
    """Everything that decides a benchmark. Validated on construction: ConfigError names the setting.

    data: the folder with the files; model: the model that every run starts from; tasks: names of parts, empty for all
    that are found; seeds: number of runs of each part, with seeds seed, seed + 1, ...; epochs, lr, batch_size: None for
    3, 3e-5 and 32, or with `grid` for the published grid; max_length: None for 128, and 384 for questions;
    max_train_rows: maximum training rows of each part, sampled once, 0 for all; grid: run every setting with the first
    seed and use the best on dev; submission: write the leaderboard files of GLUE.
    """

    COMMAND: ClassVar[str] = "experiment benchmark"

    benchmark: Literal["glue", "squad", "conll", "swag"] = option(help="Benchmark to run.", is_argument=True)
    data: Path = option(help="Folder of the files of the benchmark.", metavar="DIRECTORY")
    model: str = option(help=settings.MODEL)
    output: Path = option(help=settings.OUTPUT)
    tasks: tuple[str, ...] = option(
        (), "Only these tasks, such as cola,mrpc.", metavar="NAME,…", separator=",", default_help="all that are found"
    )
    seeds: int = option(1, settings.SEEDS)
    epochs: int | None = option(None, settings.EPOCHS, default_help="3 epochs; --grid: 2, 3, 4")
    lr: float | None = option(None, settings.LR, default_help="3e-5; --grid: 5e-5, 3e-5, 2e-5")
    batch_size: int | None = option(None, settings.BATCH_SIZE, default_help="32 examples; --grid: 16, 32")
    max_length: int | None = option(None, settings.MAX_LENGTH, default_help="128 tokens; squad: 384")
    max_train_rows: int = option(0, "Maximum training rows of each task, sampled once and reported; 0 for all.")
    grid: bool = option(False, "Try batch 16/32, lr 5e-5/3e-5/2e-5 and 2 to 4 epochs; keep the best on dev.")
    submission: bool = option(False, "GLUE: write test predictions in the format of the leaderboard.")
    skip_bad_rows: bool = option(False, settings.SKIP_BAD_ROWS)
    seed: int = option(0, settings.SEED)
    device: settings.Device = option("auto", settings.DEVICE)
    precision: settings.Precision = option("auto", settings.PRECISION)

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
        """The settings to run, in order: one, or the grid restricted to the given values."""
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
        """The recipe with every automatic setting resolved and every path absolute."""
        changes: dict[str, Any] = {"device": device, "precision": precision}
        changes |= {"data": self.data.absolute(), "output": self.output.absolute()}
        changes["model"] = absolute_name(self.model)
        return replace(self, **changes)
