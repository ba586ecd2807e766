"""What `finetune` knows of question answering: it has no settings of its own."""

from __future__ import annotations

from ..spec import TaskSpec

SPEC = TaskSpec(reads=("questions",), long_texts="always reads long texts in windows")
