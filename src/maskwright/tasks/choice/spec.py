"""Settings of multiple choice."""

from __future__ import annotations

from ..rows.settings import LongTextSettings
from ..spec import ModelKind, TaskSpec

SPEC = TaskSpec(
    title="Multiple choice (SWAG)",
    settings=LongTextSettings,
    reads=("choices",),
    kinds=(
        ModelKind("choice", "a multiple-choice model", "predict, evaluate or embed", frozenset({"predict", "choose"})),
    ),
)
