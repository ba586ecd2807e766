"""Settings of token classification."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.config import TASK, option
from ..spec import ModelKind, TaskSpec


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of `finetune tagging` alone."""

    crf: bool = option(
        False, "Add a conditional random field (CRF) on top, which scores whole tag sequences.", panel=TASK
    )


SPEC = TaskSpec(
    title="Token classification (CoNLL)",
    settings=Settings,
    run_settings=("calibrate",),
    reads=("tagged",),
    has_classes=True,
    follows=("bilm",),
    long_texts="always reads long texts in windows",
    kinds=(
        ModelKind(
            "tagging", "a token classification model", "predict, evaluate or embed", frozenset({"predict", "tag"})
        ),
        ModelKind(
            "tagging-crf",
            "a token classification model with a CRF",
            "predict, evaluate or embed",
            frozenset({"predict", "tag"}),
        ),
    ),
)
