"""Floor 4: what a fine-tuned model is asked: how rows become examples, head, loss, decoding and metrics."""

from .anomaly import Anomaly
from .base import Evaluation, Task, task_from_json, task_of_model
from .choice import Choice
from .classification import Classification
from .examples import Examples
from .generation import Generation
from .qa import QuestionAnswering
from .regression import Regression
from .sequence import SequenceTask
from .similarity import Similarity
from .tagging import Tagging
from .translation import Translation

__all__ = [
    "Anomaly",
    "Choice",
    "Classification",
    "Evaluation",
    "Examples",
    "Generation",
    "QuestionAnswering",
    "Regression",
    "SequenceTask",
    "Similarity",
    "Tagging",
    "Task",
    "Translation",
    "task_from_json",
    "task_of_model",
]
