"""Settings of regression."""

from __future__ import annotations

from dataclasses import dataclass

from ..rows.settings import PairOrderSettings, ScoreSettings, as_range
from ..spec import ModelKind, TaskSpec


@dataclass(frozen=True, kw_only=True)
class Settings(ScoreSettings, PairOrderSettings):
    """Settings of `finetune regression`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        as_range(self.score_range)


SPEC = TaskSpec(
    title="Regression of texts or pairs",
    settings=Settings,
    read_settings=("score_range",),
    run_settings=("contrastive",),
    has_numbers=True,
    contrastive="similarity",
    kinds=(
        ModelKind(
            "regression",
            "a regression model",
            "predict, evaluate or embed",
            frozenset({"predict", "classify", "text-logits", "numbers"}),
        ),
    ),
)
