"""Settings of sentence embeddings."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.config import check
from ..rows.settings import LongTextSettings, ScoreSettings, as_range
from ..spec import ModelKind, TaskSpec


@dataclass(frozen=True, kw_only=True)
class Settings(ScoreSettings, LongTextSettings):
    """Settings of `finetune similarity`."""

    def __post_init__(self) -> None:
        as_range(self.score_range)
        check(
            self.pool == "mean",
            "Setting 'pool' is for logits; sentence embeddings of windows are pooled as the model pools its tokens.",
        )


SPEC = TaskSpec(
    title="Sentence embeddings (pairs)",
    settings=Settings,
    read_settings=("score_range",),
    run_settings=("contrastive",),
    has_numbers=True,
    has_head=False,
    contrastive="similarity",
    kinds=(
        ModelKind(
            None,
            "a sentence encoder",
            "search, embed, evaluate, predict or finetune",
            frozenset({"predict", "embed", "compare"}),
            "sentence",
        ),
    ),
)
