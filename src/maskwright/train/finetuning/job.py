"""Fine-tuning as a job of the training loop: batches from tokenized rows, dev scores, best weights.

`BestCheckpointJob` has what all fine-tunings share: the best weights and early stopping. `FinetuneJob` trains one task;
`multi_task` several.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...core import storage
from ...core.randomness import generator
from ...data.batch import Batch, Deal, TokenBatches, everything
from ...models.adapters import load_trained_state, trained_state
from ...models.model import Model
from ...objectives.outcome import LossSums
from ...tasks.base import Task
from ...tasks.classification import resample_rows
from ...tasks.examples import Examples
from ...tasks.specs import spec_of
from ..checkpoint import list_checkpoints, mean_weights, read_weights, write_tensors
from ..optimizer import ADAM
from ..steps import Prefetcher

HASHED_ROWS = 1024  # packed at a time for a digest


class MemoryBestModelSaver:
    """Stores the best weights in memory."""

    def __init__(self) -> None:
        self.weights: dict[str, Tensor] | None = None

    def keep(self, model: nn.Module) -> None:
        self.weights = {name: tensor.detach().clone() for name, tensor in trained_state(model).items()}

    def restore_best(self, model: nn.Module) -> None:
        if self.weights is not None:
            load_trained_state(model, self.weights)


class DiskBestModelSaver:
    """Stores the best weights in a folder, for resuming."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, model: nn.Module) -> None:
        with storage.new_folder(self.folder, replace=True) as new:
            write_tensors(new / "model.safetensors", trained_state(model))

    def restore_best(self, model: nn.Module) -> None:
        """Load the stored weights into `model`. Raises CorruptFileError when they changed on disk."""
        load_trained_state(model, read_weights(self.folder))


BestModelSaver = MemoryBestModelSaver | DiskBestModelSaver


class WeightAverager:
    """Stores the weights of the last `count` evaluations in a folder, and averages them (Vaswani et al. 2017, 6.1)."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count

    def keep(self, step: int, model: nn.Module) -> None:
        """Write the weights after `step` steps, and remove the oldest ones."""
        DiskBestModelSaver(self.folder / f"step-{step}").keep(model)
        for _, old in list_checkpoints(self.folder)[: -self.count]:
            storage.remove_folder(old)

    def discard_after_step(self, step: int) -> None:
        """Remove the weights of steps after `step`, which are repeated."""
        for number, path in list_checkpoints(self.folder):
            if number > step:
                storage.remove_folder(path)

    def restore_best(self, model: nn.Module) -> None:
        """Load the mean of the stored weights into `model`. Raises CorruptFileError when they changed on disk."""
        load_trained_state(model, mean_weights([path for _, path in list_checkpoints(self.folder)]))


class BestCheckpointJob(ABC):
    """A job that periodically scores the dev examples and keeps the best weights.

    model: with an `encoder`; has_dev: False to keep the last weights; patience: number of evaluations without
    improvement before stopping, 0 to never stop; freeze_encoder: train only the pooler and the modules outside the
    encoder; last: averages the last weights instead of keeping the best, None to keep the best.
    """

    adam: tuple[float, float] = ADAM
    last: WeightAverager | None = None
    deal: Deal = staticmethod(everything)

    def __init__(
        self, model: nn.Module, saver: BestModelSaver, *, has_dev: bool, patience: int = 0, freeze_encoder: bool = False
    ) -> None:
        self.model, self.saver, self.has_dev = model, saver, has_dev
        self.patience, self.freeze_encoder = patience, freeze_encoder
        self.best: dict[str, Any] = {"score": None, "step": 0, "metrics": {}}
        self.without_gain = 0
        self.evaluated = 0  # the step of the last stored weights
        if freeze_encoder:
            for name, parameter in model.encoder.named_parameters():  # type: ignore[union-attr]  # a Model
                parameter.requires_grad_(name.startswith("pooler."))

    @property
    @abstractmethod
    def steps_per_epoch(self) -> int:
        """Optimizer steps per epoch."""

    @abstractmethod
    def scores(self) -> tuple[dict[str, float], list[float]]:
        """Dev scores by name, including `loss`, and the key that ranks evaluations; higher is better."""

    def evaluate(self, step: int) -> dict[str, float]:
        """Score the dev examples; store the weights if they are the best so far."""
        if self.last is not None:
            self.last.keep(step, self.model)
            self.evaluated = step
        if not self.has_dev:
            return {}
        scores, score = self.scores()
        if self.best["score"] is None or score > self.best["score"]:
            self.best = {"score": score, "step": step, "metrics": scores}
            self.without_gain = 0
            self.saver.keep(self.model)
        else:
            self.without_gain += 1
        return scores

    def should_stop(self) -> bool:
        """Whether the dev score has not improved for `patience` evaluations."""
        return bool(self.patience) and self.without_gain >= self.patience

    def conclude(self) -> None:
        """Load the best weights, or the mean of the last ones, and switch to evaluation mode."""
        if self.last is not None:
            self.last.restore_best(self.model)
        elif self.has_dev:
            self.saver.restore_best(self.model)
        self.model.eval()

    def state(self) -> dict[str, Any]:
        """The best score so far; the data order needs no state."""
        return {"best": self.best, "without_gain": self.without_gain, "evaluated": self.evaluated}

    def restore(self, state: dict[str, Any]) -> None:
        self.best, self.without_gain = state["best"], state["without_gain"]
        self.evaluated = state.get("evaluated", 0)  # a checkpoint of an older version has none
        if self.last is not None:
            self.last.discard_after_step(self.evaluated)


class FinetuneJob(BestCheckpointJob):
    """Supplies batches to the loop: all rows in random order in each epoch, `batch_size` rows per step.

    dev: None to keep the last weights; batch_tokens: maximum tokens per optimizer step instead of rows; for the others
    see BestCheckpointJob. A task may freeze the encoder, or resample its rows in each epoch.
    """

    model: Model

    def __init__(
        self,
        model: Model,
        task: Task,
        train: Examples,
        dev: Examples | None,
        saver: BestModelSaver,
        *,
        batch_size: int,
        seed: int,
        device: torch.device,
        accumulation: int = 1,
        patience: int = 0,
        freeze_encoder: bool = False,
        batch_tokens: int | None = None,
        last: WeightAverager | None = None,
    ) -> None:
        freeze_encoder = freeze_encoder or spec_of(task.name).freezes_encoder
        super().__init__(model, saver, has_dev=dev is not None, patience=patience, freeze_encoder=freeze_encoder)
        self.task, self.train, self.dev = task, train, dev
        self.batch_size, self.seed, self.device = batch_size, seed, device
        self.accumulation = accumulation
        self._order: tuple[int, Any] | None = None
        self._chances = task.row_probabilities(train)
        self._by_tokens = None if batch_tokens is None else TokenBatches(train.lengths, batch_tokens, seed)
        self.adam, self.last = task.adam, last
        self._next = Prefetcher(self._make, ahead=device.type == "cuda")

    @property
    def steps_per_epoch(self) -> int:
        if self._by_tokens is not None:
            return len(self._by_tokens)
        return -(-len(self.train) // self.batch_size)

    def micro_batches(self, step: int) -> list[Batch]:
        return [batch for _, batch in self.numbered(step)]

    def numbered(self, step: int) -> list[tuple[int, Batch]]:
        self.task.epoch = step / self.steps_per_epoch
        return self._next.take(step)

    def fingerprint(self) -> str:
        return fingerprint_of(self.train)

    def _make(self, step: int) -> list[tuple[int, Batch]]:
        epoch, number = divmod(step, self.steps_per_epoch)
        if self._by_tokens is not None:
            return cut(self.train, self._by_tokens.rows(epoch, number), self.accumulation, self.device, self.deal)
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, self._sample(epoch))
        rows = self._order[1][number * self.batch_size : (number + 1) * self.batch_size]
        return cut(self.train, rows, self.accumulation, self.device, self.deal)

    def _sample(self, epoch: int) -> np.ndarray:
        """Row indices of an epoch in order: int64 [rows]. Rows of a group, one after another, share a step."""
        if self._chances is None:
            order = generator(self.seed, "order", epoch).permutation(len(self.train))
            if (groups := self.task.row_groups(self.train)) is None:
                return order
            first = np.unique(groups[order], return_index=True)[1]  # [groups], places of their first rows
            return order[np.argsort(first[groups[order]], kind="stable")]
        return resample_rows(self._chances, generator(self.seed, "resample", epoch))

    def counts(self, batch: Batch) -> dict[str, int]:
        return self.task.counts(batch)

    def outcome(self, batch: Batch) -> LossSums:
        """Loss and correct predictions of a batch. A frozen encoder runs without dropout."""
        if self.freeze_encoder:
            self.model.encoder.eval()
        return self.task.outcome(self.model, batch)

    def scores(self) -> tuple[dict[str, float], list[float]]:
        """Loss and metrics on the dev examples; the main metric ranks them.

        The loss breaks ties of four digits: a correlation can be perfect long before the predictions are.
        """
        assert self.dev is not None
        evaluation = self.task.evaluate(self.model, self.dev)
        scores = {"loss": evaluation.loss, **evaluation.metrics}
        return scores, [round(scores[self.task.main_metric], 4), -evaluation.loss]


def cut(
    examples: Examples,
    rows: Sequence[int] | np.ndarray,
    accumulation: int,
    device: torch.device,
    deal: Deal = everything,
) -> list[tuple[int, Batch]]:
    """Split the rows of a step into micro-batches; returns those that `deal` chooses, with their numbers."""
    size = -(-len(rows) // accumulation)
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    portions = [own for part in parts for own in examples.portions(part)]
    chosen = deal([int(examples.lengths[np.asarray(own, dtype=np.int64)].sum()) for own in portions])
    return [(number, examples.batch(portions[number]).to(device)) for number in chosen]


def fingerprint_of(examples: Examples) -> str:
    """A digest of tokenized rows and their labels."""
    digest = hashlib.sha256()
    for start in range(0, len(examples), HASHED_ROWS):
        batch = examples.batch(np.arange(start, min(start + HASHED_ROWS, len(examples))))
        for name, tensor in (("input_ids", batch.input_ids), *sorted(batch.labels.items())):
            digest.update(name.encode())
            digest.update(tensor.contiguous().numpy().data)
    return f"{len(examples)} rows, {int(examples.lengths.sum())} tokens, {digest.hexdigest()[:16]}"
