"""Settings of text-to-text generation."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.config import TASK, option
from ..spec import ModelKind, TaskSpec


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of `finetune generation` alone."""

    delimiter: str | None = option(
        None,
        'Token between source and target, such as "<to-fr>"; added where it is new.',
        metavar="TOKEN",
        default_help="the end-of-text token",
        panel=TASK,
    )


SPEC = TaskSpec(
    title="Text-to-text generation",
    networks=("causal",),
    settings=Settings,
    long_texts="truncates long texts",
    kinds=(
        ModelKind(
            "clm",
            "a text-to-text model",
            "predict, evaluate, generate or finetune",
            frozenset({"predict", "generate"}),
            "generation",
        ),
    ),
)
