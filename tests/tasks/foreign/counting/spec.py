"""Settings of the task."""

from __future__ import annotations

from dataclasses import dataclass

from maskwright.core.config import TASK, check, option
from maskwright.tasks.specs import ModelKind, TaskSpec


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of `finetune count` alone."""

    tolerance: int = option(0, "Largest difference of a correct count.", unit="words", panel=TASK)

    def __post_init__(self) -> None:
        check(self.tolerance >= 0, f"Setting 'tolerance' is {self.tolerance}; it must be 0 or more.")


SPEC = TaskSpec(
    settings=Settings,
    defaults={"epochs": 4, "lr": 3e-3},
    has_numbers=True,
    kinds=(
        ModelKind("regression", "a counting model", "predict or evaluate", frozenset({"predict", "classify"}), "count"),
    ),
)
