"""Fine-tuning tasks: examples, model head, loss, decoding and metrics.

One package per task (`task.py` is the `Task` subclass, `report.py` its report blocks), plus two shared ones: `rows`
turns labeled rows into packed examples, `evaluation` scores, calibrates and compares predictions.
"""

from .anomaly.task import Anomaly
from .base import Evaluation, Task, task_from_json, task_of_model
from .choice.task import Choice
from .classification.task import Classification
from .generation.task import Generation
from .qa.task import QuestionAnswering
from .regression.task import Regression
from .rows.examples import Examples
from .rows.sequence import SequenceTask
from .similarity.task import Similarity
from .tagging.task import Tagging
from .translation.task import Translation

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
