"""What `finetune` knows of question answering: it has no settings of its own."""

from __future__ import annotations

from ..spec import ModelKind, TaskSpec

SPEC = TaskSpec(
    title="Question answering (SQuAD)",
    reads=("questions",),
    long_texts="always reads long texts in windows",
    kinds=(
        ModelKind(
            "qa", "a question-answering model", "answer, predict, evaluate or embed", frozenset({"predict", "answer"})
        ),
    ),
)
