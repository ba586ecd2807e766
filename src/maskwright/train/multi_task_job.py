"""Several tasks on one encoder as a job for the loop: each step trains one task, its head and the shared encoder.

Liu et al. 2019, "Multi-Task Deep Neural Networks for Natural Language Understanding", algorithm 1: in each epoch the
batches of all tasks are put together and shuffled, so a task has as many steps as it has rows for, and an epoch sees
every row of every task once, as it would alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from ..core.randomness import generator
from ..data.batch import Batch
from ..models.model import Model
from ..models.transformer import Transformer
from ..objectives.outcome import Outcome
from ..tasks.base import Task
from ..tasks.examples import Examples
from .finetune_job import BestKept, Keeper, cut

MEAN = "mean_score"


class SharedEncoder(nn.Module):
    """Models of one network whose encoders are one: what a task teaches it, all have learnt.

    models: each with its own head; they stay whole models, which can answer and be saved. A pooler is shared by those
    that have one.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        self.models = tuple(models)  # a tuple, so that torch does not count the encoder once for each
        first = next((model for model in models if model.has_pooler), models[0])
        self.encoder: Transformer = first.encoder
        self.heads = nn.ModuleList(model.head for model in models if model.head is not None)
        self.tops = nn.ModuleList(model.top for model in models if model.top is not None)
        for model in models:
            for name, part in first.encoder.named_children():
                if getattr(model.encoder, name) is not None:
                    setattr(model.encoder, name, part)

    def train(self, mode: bool = True) -> Self:
        """Set all models to training or evaluation."""
        for model in self.models:
            model.train(mode)
        return super().train(mode)


@dataclass(frozen=True)
class Part:
    """One of the tasks: name, as in the log and the folders; dev: rows that choose the best epoch."""

    name: str
    task: Task
    train: Examples
    dev: Examples


class MultiTaskJob(BestKept):
    """Gives the loop batches of all tasks in a drawn order, `batch_size` rows of one task a step.

    The best step is that with the highest mean of the tasks' main metrics.
    """

    model: SharedEncoder

    def __init__(
        self,
        model: SharedEncoder,
        parts: Sequence[Part],
        keeper: Keeper,
        *,
        batch_size: int,
        seed: int,
        device: torch.device,
        accumulation: int = 1,
        patience: int = 0,
        freeze_encoder: bool = False,
    ) -> None:
        super().__init__(model, keeper, has_dev=True, patience=patience, freeze_encoder=freeze_encoder)
        self.parts = list(parts)
        self.batch_size, self.seed, self.device, self.accumulation = batch_size, seed, device, accumulation
        self.current = 0  # the task of the step that is being done
        self._plan: tuple[int, list[tuple[int, Any]]] | None = None

    @property
    def steps_by_part(self) -> list[int]:
        """Steps that see every row of each task once."""
        return [-(-len(part.train) // self.batch_size) for part in self.parts]

    @property
    def steps_per_epoch(self) -> int:
        """Steps that see every row of all tasks once."""
        return sum(self.steps_by_part)

    def micro_batches(self, step: int) -> list[Batch]:
        """The batches of step `step`, all of one task, a function of the seed and the step alone."""
        epoch, number = divmod(step, self.steps_per_epoch)
        if self._plan is None or self._plan[0] != epoch:
            self._plan = (epoch, self.plan(epoch))
        self.current, rows = self._plan[1][number]
        return cut(self.parts[self.current].train, rows, self.accumulation, self.device)

    def plan(self, epoch: int) -> list[tuple[int, Any]]:
        """Task and rows of each step of an epoch. The order of a task's own rows does not depend on the others."""
        size = self.batch_size
        orders = [
            generator(self.seed, f"order of {part.name}", epoch).permutation(len(part.train)) for part in self.parts
        ]
        batches = [iter([order[at : at + size] for at in range(0, len(order), size)]) for order in orders]
        turns = np.repeat(np.arange(len(self.parts)), self.steps_by_part)
        drawn = generator(self.seed, "turns of the tasks", epoch).permutation(turns).tolist()
        return [(part, next(batches[part])) for part in drawn]

    def counts(self, batch: Batch) -> dict[str, int]:
        """Gold answers of a batch of the step's task, under the name of the part."""
        part = self.parts[self.current]
        return {part.name: part.task.counts(batch)[part.task.name]}

    def outcome(self, batch: Batch) -> Outcome:
        """Loss and right answers of a batch of the step's task. A frozen encoder runs without dropout."""
        part, model = self.parts[self.current], self.model.models[self.current]
        if self.freeze_encoder:
            model.encoder.eval()
        found = part.task.outcome(model, batch)
        name = part.task.name  # two tasks of one kind have two names here
        correct = {part.name: found.correct[name]} if name in found.correct else {}
        return Outcome({part.name: found.losses[name]}, {part.name: found.counts[name]}, correct)

    def scores(self) -> tuple[dict[str, float], list[float]]:
        """`NAME.loss` and `NAME.METRIC` of each task, the mean loss; the mean of the main metrics decides."""
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
