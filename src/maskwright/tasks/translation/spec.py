"""Settings of translation."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.config import TASK, check, option
from ..spec import ModelKind, TaskSpec


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of `finetune translation` alone."""

    label_smoothing: float | None = option(
        None, "Label smoothing: probability that is spread over all tokens.", panel=TASK
    )

    def __post_init__(self) -> None:
        check(
            self.label_smoothing is None or 0 <= self.label_smoothing < 1,
            f"Setting 'label_smoothing' is {self.label_smoothing}; it must be from 0 to below 1.",
        )


# From scratch, as published: 7e-4 is (512 * 4000) ** -0.5 (Vaswani et al. 2017, equation 3).
SPEC = TaskSpec(
    title="Translation",
    networks=("encoder-decoder",),
    settings=Settings,
    run_settings=("train_target", "dev_target", "target_tokenizer", "batch_tokens", "average_checkpoints"),
    defaults={
        "epochs": 20,
        "min_steps": 0,
        "lr": 7e-4,
        "warmup": 4000,
        "schedule": "inverse_sqrt",
        "batch_tokens": 4096,
        "label_smoothing": 0.1,
    },
    follows=("denoise",),
    long_texts="truncates long texts",
    kinds=(
        ModelKind(
            "seq2seq",
            "a translation model",
            "translate, predict, evaluate, embed or finetune",
            frozenset({"predict", "translate"}),
        ),
    ),
)
