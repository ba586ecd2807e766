"""The data of a fine-tuning run, as the baseline and the report of its task read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..models.model import Model
from .rows.examples import Examples


class Baseline(NamedTuple):
    """The main metric of a trivial predictor on the dev examples.

    predictor: what it predicts, for messages; is_untrained: whether it is the model before training.
    """

    score: float
    predictor: str
    is_untrained: bool = False


@dataclass(frozen=True)
class TaskData:
    """Labeled rows and the examples made of them.

    Attributes:
        task: task that learns them.
        train_rows: labeled rows to train on.
        dev_rows: labeled validation rows.
        train: examples of the training rows.
        dev: their examples.
        max_length: maximum sequence length in tokens.
        first_model: builds the model as before training.
        saved_model: loads the trained model, on its device and in its precision; returns None if a run has not one.
    """

    task: Any
    train_rows: list[Any]
    dev_rows: list[Any]
    train: Examples
    dev: Examples
    max_length: int
    first_model: Callable[[], Model] = field(repr=False)
    saved_model: Callable[[], Model | None] = field(default=lambda: None, repr=False)

    def untrained(self) -> Baseline:
        """Returns the score of the model before training, for tasks that it can do."""
        found = self.task.evaluate(self.first_model(), self.dev).metrics
        return Baseline(found[self.task.main_metric], "the model before training", is_untrained=True)
