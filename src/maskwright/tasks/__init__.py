"""Floor 4: what a fine-tuned model is asked: how rows become examples, head, loss, decoding and metrics."""

from .base import Evaluation, SequenceTask, task_from_json, task_of_model
from .classification import Classification
from .examples import Examples
from .regression import Regression

__all__ = [
    "Classification",
    "Evaluation",
    "Examples",
    "Regression",
    "SequenceTask",
    "task_from_json",
    "task_of_model",
]
