"""What `finetune` knows of question answering: it has no settings of its own."""

from __future__ import annotations

from ..spec import TaskSpec

SPEC = TaskSpec(
    title="Question answering (SQuAD)",
    reads=("questions",),
    long_texts="always reads long texts in windows",
)
