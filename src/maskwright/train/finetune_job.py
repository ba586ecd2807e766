"""Fine-tuning as a job for the loop: batches by step from tokenised rows, dev scores, and the best weights so far.

`BestKept` is what every fine-tuning shares: the weights that scored best, and when to stop. `FinetuneJob` trains one
task; `multi_task_job` several.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from ..core import storage
from ..core.randomness import generator
from ..data.batch import Batch
from ..models.model import Model
from ..objectives.outcome import Outcome
from ..tasks.base import Task
from ..tasks.examples import Examples
from ..tasks.imbalance import draw_rows
from .average import mean_weights
from .checkpoint import list_checkpoints, read_weights
from .next_step import NextStep
from .optimizer import ADAM
from .token_batches import TokenBatches

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Keeper(Protocol):
    """Where the best weights stay until training has ended."""

    def keep(self, model: nn.Module) -> None: ...

    def bring_back(self, model: nn.Module) -> None: ...


class MemoryKeeper:
    """Keeps a copy in memory."""

    def __init__(self) -> None:
        self.weights: dict[str, Tensor] | None = None

    def keep(self, model: nn.Module) -> None:
        """Copy the weights."""
        self.weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    def bring_back(self, model: nn.Module) -> None:
        """Put the copy back."""
        if self.weights is not None:
            model.load_state_dict(self.weights)


class FolderKeeper:
    """Keeps them in a folder, so that an interrupted run still has them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, model: nn.Module) -> None:
        """Write the weights."""
        tensors = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
        with storage.new_folder(self.folder, replace=True) as new:
            storage.write_bytes(new / "model.safetensors", safetensors.torch.save(tensors))

    def bring_back(self, model: nn.Module) -> None:
        """Read them back. Raises CorruptFileError when they changed on disk."""
        model.load_state_dict(read_weights(self.folder))


class LastKeeper:
    """Keeps the weights of the last `count` evaluations in a folder: their mean is the model (Vaswani et al. 2017,
    section 6.1).
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count

    def keep(self, step: int, model: nn.Module) -> None:
        """Write the weights after `step` steps, and let the oldest go."""
        FolderKeeper(self.folder / f"step-{step}").keep(model)
        for _, old in list_checkpoints(self.folder)[: -self.count]:
            storage.remove_folder(old)

    def forget_after(self, step: int) -> None:
        """Remove what was kept after `step`: those steps are done again."""
        for number, path in list_checkpoints(self.folder):
            if number > step:
                storage.remove_folder(path)

    def bring_back(self, model: nn.Module) -> None:
        """Give the model the mean of them. Raises CorruptFileError when they changed on disk."""
        model.load_state_dict(mean_weights([path for _, path in list_checkpoints(self.folder)]))


class BestKept(ABC):
    """A job that scores held-out rows now and then and keeps the weights that were best.

    model: with an `encoder`; has_dev: False to train to the end and keep the last weights; patience: stop after so many
    dev scores without a better one, 0 never; freeze_encoder: only the pooler and what is no encoder train. last: keeps
    the last weights, whose mean is what the job ends with; None to end with the best.
    """

    adam: tuple[float, float] = ADAM
    last: LastKeeper | None = None

    def __init__(
        self, model: nn.Module, keeper: Keeper, *, has_dev: bool, patience: int = 0, freeze_encoder: bool = False
    ) -> None:
        self.model, self.keeper, self.has_dev = model, keeper, has_dev
        self.patience, self.freeze_encoder = patience, freeze_encoder
        self.best: dict[str, Any] = {"score": None, "step": 0, "metrics": {}}
        self.without_gain = 0
        self.evaluated = 0  # the step of the last evaluation whose weights were kept
        if freeze_encoder:
            for name, parameter in model.encoder.named_parameters():  # type: ignore[union-attr]
                parameter.requires_grad_(name.startswith("pooler."))

    @property
    @abstractmethod
    def steps_per_epoch(self) -> int:
        """Steps that see every row once."""

    @abstractmethod
    def scores(self) -> tuple[dict[str, float], list[float]]:
        """Dev scores by name, `loss` among them, and what decides which step is best, the greater the better."""

    def evaluate(self, step: int) -> dict[str, float]:
        """Score the dev rows; keep the weights when they are the best so far."""
        if self.last is not None:
            self.last.keep(step, self.model)
            self.evaluated = step
        if not self.has_dev:
            return {}
        scores, score = self.scores()
        if self.best["score"] is None or score > self.best["score"]:
            self.best = {"score": score, "step": step, "metrics": scores}
            self.without_gain = 0
            self.keeper.keep(self.model)
        else:
            self.without_gain += 1
        return scores

    def should_stop(self) -> bool:
        """Whether the dev score has not risen for `patience` evaluations."""
        return bool(self.patience) and self.without_gain >= self.patience

    def conclude(self) -> None:
        """Leave the model with its best weights, or the mean of the last ones, out of training mode."""
        if self.last is not None:
            self.last.bring_back(self.model)
        elif self.has_dev:
            self.keeper.bring_back(self.model)
        self.model.eval()

    def state(self) -> dict[str, Any]:
        """The best score so far; the order of the rows needs no state."""
        return {"best": self.best, "without_gain": self.without_gain, "evaluated": self.evaluated}

    def restore(self, state: dict[str, Any]) -> None:
        """Go to where a checkpoint was."""
        self.best, self.without_gain = state["best"], state["without_gain"]
        self.evaluated = state.get("evaluated", 0)  # a checkpoint of an older version has none
        if self.last is not None:
            self.last.forget_after(self.evaluated)


class FinetuneJob(BestKept):
    """Gives the loop its batches: a drawn order of all rows in each epoch, `batch_size` rows a step.

    dev: None to train all epochs and keep the last weights; batch_tokens: tokens of a step instead of rows; the other
    settings are those of BestKept. A task may freeze
    the encoder by itself; one that gives its rows chances draws as many, anew for each epoch.
    """

    model: Model

    def __init__(
        self,
        model: Model,
        task: Task,
        train: Examples,
        dev: Examples | None,
        keeper: Keeper,
        *,
        batch_size: int,
        seed: int,
        device: torch.device,
        accumulation: int = 1,
        patience: int = 0,
        freeze_encoder: bool = False,
        batch_tokens: int | None = None,
        last: LastKeeper | None = None,
    ) -> None:
        freeze_encoder = freeze_encoder or task.freezes_encoder
        super().__init__(model, keeper, has_dev=dev is not None, patience=patience, freeze_encoder=freeze_encoder)
        self.task, self.train, self.dev = task, train, dev
        self.batch_size, self.seed, self.device = batch_size, seed, device
        self.accumulation = accumulation
        self._order: tuple[int, Any] | None = None
        self._chances = task.row_chances(train)
        self._by_tokens = None if batch_tokens is None else TokenBatches(train.lengths, batch_tokens, seed)
        self.adam, self.last = task.adam, last
        self._next = NextStep(self._make, ahead=device.type == "cuda")

    @property
    def steps_per_epoch(self) -> int:
        """Steps that see every row once."""
        if self._by_tokens is not None:
            return len(self._by_tokens)
        return -(-len(self.train) // self.batch_size)

    def micro_batches(self, step: int) -> list[Batch]:
        """The batches of step `step`, a function of the seed and the step alone."""
        return self._next.take(step)

    def _make(self, step: int) -> list[Batch]:
        epoch, number = divmod(step, self.steps_per_epoch)
        if self._by_tokens is not None:
            return cut(self.train, self._by_tokens.rows(epoch, number), self.accumulation, self.device)
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, self._draw(epoch))
        rows = self._order[1][number * self.batch_size : (number + 1) * self.batch_size]
        return cut(self.train, rows, self.accumulation, self.device)

    def _draw(self, epoch: int) -> np.ndarray:
        """The rows of an epoch in their order: int64 [rows]."""
        if self._chances is None:
            return generator(self.seed, "order", epoch).permutation(len(self.train))
        return draw_rows(self._chances, generator(self.seed, "resample", epoch))

    def counts(self, batch: Batch) -> dict[str, int]:
        """Gold answers of a batch, under the task's name."""
        return self.task.counts(batch)

    def outcome(self, batch: Batch) -> Outcome:
        """Loss and right answers of a batch. A frozen encoder runs without dropout."""
        if self.freeze_encoder:
            self.model.encoder.eval()
        return self.task.outcome(self.model, batch)

    def scores(self) -> tuple[dict[str, float], list[float]]:
        """Loss and metrics of the dev rows; the main metric decides.

        Scores that agree to four digits are told apart by the loss: a correlation can be perfect long before the
        numbers are.
        """
        assert self.dev is not None
        evaluation = self.task.evaluate(self.model, self.dev)
        scores = {"loss": evaluation.loss, **evaluation.metrics}
        return scores, [round(scores[self.task.main_metric], 4), -evaluation.loss]


def cut(examples: Examples, rows: Sequence[int] | np.ndarray, accumulation: int, device: torch.device) -> list[Batch]:
    """The rows of a step as its micro-batches."""
    size = -(-len(rows) // accumulation)
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    return [examples.batch(own).to(device) for part in parts for own in examples.portions(part)]
