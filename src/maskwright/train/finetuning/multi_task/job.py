"""Multi-task learning as a job of the training loop: each step trains one task, its head and the shared encoder.

Liu et al. 2019, "Multi-Task Deep Neural Networks for Natural Language Understanding", algorithm 1: in each epoch the
batches of all tasks are merged and shuffled, so every row of every task is seen once per epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from ....core.randomness import generator
from ....data.batch import Batch
from ....models.model import Model
from ....models.transformer import Transformer
from ....objectives.outcome import LossSums
from ....tasks.base import Task
from ....tasks.examples import Examples
from ..job import BestCheckpointJob, BestModelSaver, cut, fingerprint_of

MEAN = "mean_score"


class SharedEncoder(nn.Module):
    """Models that share one encoder.

    models: each with its own head; each remains a complete model that can predict and be saved. Those with a pooler
    share it.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        self.models = tuple(models)  # a tuple, so that torch does not register the encoder once per model
        first = next((model for model in models if model.has_pooler), models[0])
        self.encoder: Transformer = first.encoder
        self.heads = nn.ModuleList(model.head for model in models if model.head is not None)
        self.tops = nn.ModuleList(model.top for model in models if model.top is not None)
        for model in models:
            for name, part in first.encoder.named_children():
                if getattr(model.encoder, name) is not None:
                    setattr(model.encoder, name, part)

    def train(self, mode: bool = True) -> Self:
        """Set all models to training or evaluation mode."""
        for model in self.models:
            model.train(mode)
        return super().train(mode)


@dataclass(frozen=True)
class Part:
    """Data of one task. name: as in the log and the folders; dev: examples that choose the best epoch."""

    name: str
    task: Task
    train: Examples
    dev: Examples


class MultiTaskJob(BestCheckpointJob):
    """Supplies batches of all tasks in random order, `batch_size` rows of one task per step.

    The best step is the one with the highest mean of the tasks' main metrics.
    """

    model: SharedEncoder

    def __init__(
        self,
        model: SharedEncoder,
        parts: Sequence[Part],
        saver: BestModelSaver,
        *,
        batch_size: int,
        seed: int,
        device: torch.device,
        accumulation: int = 1,
        patience: int = 0,
        freeze_encoder: bool = False,
    ) -> None:
        super().__init__(model, saver, has_dev=True, patience=patience, freeze_encoder=freeze_encoder)
        self.parts = list(parts)
        self.batch_size, self.seed, self.device, self.accumulation = batch_size, seed, device, accumulation
        self.current = 0  # index of the current step's task
        self._plan: tuple[int, list[tuple[int, Any]]] | None = None

    @property
    def steps_by_part(self) -> list[int]:
        """Optimizer steps per epoch of each task."""
        return [-(-len(part.train) // self.batch_size) for part in self.parts]

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps per epoch of all tasks."""
        return sum(self.steps_by_part)

    def micro_batches(self, step: int) -> list[Batch]:
        """The batches of step `step`, all of one task, a function of the seed and the step only."""
        return [batch for _, batch in self.numbered(step)]

    def fingerprint(self) -> str:
        """A digest of the training rows of all tasks."""
        return "; ".join(fingerprint_of(part.train) for part in self.parts)

    def numbered(self, step: int) -> list[tuple[int, Batch]]:
        """The batches of this process, with their numbers in the step."""
        epoch, number = divmod(step, self.steps_per_epoch)
        if self._plan is None or self._plan[0] != epoch:
            self._plan = (epoch, self.plan(epoch))
        self.current, rows = self._plan[1][number]
        return cut(self.parts[self.current].train, rows, self.accumulation, self.device, self.deal)

    def plan(self, epoch: int) -> list[tuple[int, Any]]:
        """Task and rows of each step of an epoch. The row order of a task does not depend on the other tasks."""
        size = self.batch_size
        orders = [
            generator(self.seed, f"order of {part.name}", epoch).permutation(len(part.train)) for part in self.parts
        ]
        batches = [iter([order[at : at + size] for at in range(0, len(order), size)]) for order in orders]
        turns = np.repeat(np.arange(len(self.parts)), self.steps_by_part)
        drawn = generator(self.seed, "turns of the tasks", epoch).permutation(turns).tolist()
        return [(part, next(batches[part])) for part in drawn]

    def counts(self, batch: Batch) -> dict[str, int]:
        """Number of labels of a batch of the current task, under its name."""
        part = self.parts[self.current]
        return {part.name: part.task.counts(batch)[part.task.name]}

    def outcome(self, batch: Batch) -> LossSums:
        """Loss and correct predictions of a batch of the current task. A frozen encoder runs without dropout."""
        part, model = self.parts[self.current], self.model.models[self.current]
        if self.freeze_encoder:
            model.encoder.eval()
        found = part.task.outcome(model, batch)
        name = part.task.name  # two tasks of one type have different names here
        correct = {part.name: found.correct[name]} if name in found.correct else {}
        return LossSums({part.name: found.losses[name]}, {part.name: found.counts[name]}, correct)

    def scores(self) -> tuple[dict[str, float], list[float]]:
        """`NAME.loss` and `NAME.METRIC` of each task, and the mean loss; ranked by the mean of the main metrics."""
        found: dict[str, float] = {}
        mains, losses = [], []
        for part, model in zip(self.parts, self.model.models, strict=True):
            evaluation = part.task.evaluate(model, part.dev)
            own = {"loss": evaluation.loss, **evaluation.metrics}
            found |= {f"{part.name}.{name}": value for name, value in own.items()}
            mains.append(own[part.task.main_metric])
            losses.append(evaluation.loss)
        mean, loss = float(np.mean(mains)), float(np.mean(losses))
        return {"loss": loss, MEAN: mean, **found}, [round(mean, 4), -loss]
