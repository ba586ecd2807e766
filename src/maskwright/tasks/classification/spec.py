"""Settings of text classification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...core.config import TASK, check, option
from ..rows.settings import PairOrderSettings
from ..spec import ModelKind, TaskSpec


@dataclass(frozen=True, kw_only=True)
class Settings(PairOrderSettings):
    """Settings of `finetune classification` alone."""

    class_weight: Literal["balanced"] | None = option(
        None, "Weight the loss of each class by its inverse frequency.", panel=TASK
    )
    multi_label: bool | None = option(
        None, "Rows have several labels, a|b, or none.", default_help="as the data has it", panel=TASK
    )
    focal: float | None = option(
        None, "Gamma of the focal loss, such as 2.", default_help="none: cross-entropy", panel=TASK
    )
    resample: Literal["balanced", "sqrt"] | None = option(None, "Sample rows of rare classes more often.", panel=TASK)
    threshold_for: str | None = option(
        None,
        "Choose the threshold of this class on the dev examples, for the best F1.",
        metavar="CLASS",
        panel=TASK,
    )
    threshold_precision: float | None = option(
        None,
        "Choose the threshold for at least this precision, with the highest recall.",
        default_help="none: the best F1",
        panel=TASK,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.focal is None or self.focal >= 0, f"Setting 'focal' is {self.focal}; gamma must be 0 or more.")
        check(
            self.threshold_precision is None or 0 < self.threshold_precision < 1,
            f"Setting 'threshold_precision' is {self.threshold_precision}; it must be between 0 and 1.",
        )
        check(
            self.threshold_precision is None or self.threshold_for is not None,
            "--threshold-precision needs --threshold-for, the class whose threshold is chosen.",
        )


SPEC = TaskSpec(
    title="Classification of texts or pairs",
    settings=Settings,
    read_settings=("multi_label",),
    run_settings=("calibrate",),
    reads=("texts", "trees"),
    has_classes=True,
    kinds=(
        ModelKind(
            "classification",
            "a classifier",
            "predict, evaluate or embed",
            frozenset({"predict", "classify", "text-logits", "classes"}),
        ),
    ),
)
