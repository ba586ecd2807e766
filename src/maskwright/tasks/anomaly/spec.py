"""Settings of anomaly detection."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.config import TASK, check, option
from ..rows.settings import LongTextSettings
from ..spec import ModelKind, TaskSpec


@dataclass(frozen=True, kw_only=True)
class Settings(LongTextSettings):
    """Settings of `finetune anomaly` alone."""

    normal: str | None = option(None, "Class to learn.", metavar="CLASS", default_help="the most common", panel=TASK)
    normal_quantile: float | None = option(
        None,
        "Fraction of the normal dev examples below the threshold.",
        default_help="0.95, where --dev has no other rows",
        panel=TASK,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check(
            self.normal_quantile is None or 0 < self.normal_quantile < 1,
            f"Setting 'normal_quantile' is {self.normal_quantile}; it must be between 0 and 1.",
        )


# A small network on frozen features takes many quick steps.
SPEC = TaskSpec(
    title="Anomaly detection",
    settings=Settings,
    defaults={"epochs": 30, "min_steps": 0, "lr": 1e-3},
    freezes_encoder=True,
    has_classes=True,
    kinds=(
        ModelKind(
            "anomaly",
            "an anomaly detector",
            "predict, evaluate or embed",
            frozenset({"predict", "classify", "detect-anomalies"}),
        ),
    ),
)
