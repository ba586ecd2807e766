"""Callbacks: a user's functions that a training run calls, with facts and not with its objects.

A callback must not affect the result, or a run that was resumed would differ from one that was not. The states that
training shares with the rest of the process (random generators, threads, torch's modes) are restored after each call;
changed weights end the training.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import nn

from ..core.errors import ConfigError, TrainingError
from ..nn.layers import preserve_generators

METHODS = ("on_step", "on_evaluate", "on_checkpoint")


@dataclass(frozen=True)
class TrainingFacts:
    """What every callback gets.

    Attributes:
        folder: Folder with the log of this training: the run folder, or that of one seed.
        step: Optimizer steps done.
        steps: Optimizer steps of the whole training.
    """

    folder: Path
    step: int
    steps: int


@dataclass(frozen=True)
class StepFacts(TrainingFacts):
    """One optimizer step.

    Attributes:
        lr: Learning rate of the step.
        grad_norm: Norm of the gradient, before clipping.
        tokens: Tokens of the step.
        record: Entry of the log if this step has one, with the mean loss since the last entry; otherwise empty.
    """

    lr: float
    grad_norm: float
    tokens: int
    record: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluationFacts(TrainingFacts):
    """One evaluation. scores: by name; empty if the training has no held-out data."""

    scores: Mapping[str, float]


@dataclass(frozen=True)
class CheckpointFacts(TrainingFacts):
    """One checkpoint. checkpoint: its folder, which is complete."""

    checkpoint: Path


class Callback:
    """Base class of callbacks of `pretrain`, `finetune` and `distill`; override the methods that you need.

    An exception ends the training; the same call resumes it from the last checkpoint, and repeats the calls for the
    steps after it. Under torchrun only the first process calls.
    """

    def on_step(self, facts: StepFacts) -> None:
        """Called after each optimizer step."""

    def on_evaluate(self, facts: EvaluationFacts) -> None:
        """Called after each evaluation on held-out data."""

    def on_checkpoint(self, facts: CheckpointFacts) -> None:
        """Called after each checkpoint."""


class Callbacks:
    """The callbacks of one training. Raises ConfigError for an object that has none of the methods."""

    def __init__(self, callbacks: Sequence[Any] = ()) -> None:
        for one in callbacks:
            if not any(callable(getattr(one, name, None)) for name in METHODS):
                raise ConfigError(f"{type(one).__name__} is not a callback: it needs one of {', '.join(METHODS)}.")
        self._by_name = {
            name: [
                one
                for one in callbacks
                if callable(getattr(one, name, None)) and getattr(type(one), name, None) is not getattr(Callback, name)
            ]
            for name in METHODS
        }

    def __bool__(self) -> bool:
        return any(self._by_name.values())

    def call(self, name: str, model: nn.Module, facts: TrainingFacts) -> None:
        """Call the method `name` of each callback. Raises TrainingError when one changed the weights of `model`."""
        if not (callbacks := self._by_name[name]):
            return
        before = _fingerprint(model)
        for one in callbacks:
            with _preserved_state(next(model.parameters()).device):
                getattr(one, name)(facts)
            after = _fingerprint(model)
            if changed := [weight for weight in after if after[weight] != before.get(weight)]:
                raise TrainingError(
                    f"{type(one).__name__}.{name} changed {', '.join(changed[:3])}{' …' if len(changed) > 3 else ''} "
                    f"after step {facts.step:,}, so the run could not be resumed exactly: a callback must not change "
                    "the model; training stopped and the last checkpoint is unchanged."
                )


def read_only(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """A copy that cannot be changed."""
    return MappingProxyType(dict(values))


def _fingerprint(model: nn.Module) -> dict[str, tuple[Any, ...]]:
    """By name: what a write to a weight or buffer changes, and the mode of the modules.

    A write through `.data` leaves the version as it is, so the bits are added up too (modulo 2^64).
    """
    found: dict[str, tuple[Any, ...]] = {}
    sums = []
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        found[name] = (tensor.data_ptr(), tensor._version, tensor.requires_grad)
        flat = tensor.detach().reshape(-1).contiguous().view(torch.uint8)
        flat = flat.view(torch.int64) if flat.numel() % 8 == 0 and flat.storage_offset() % 8 == 0 else flat
        sums.append(flat.sum())
    totals = torch.stack(sums).tolist() if sums else []
    modes = {f"the mode of {name or 'the model'}": (module.training,) for name, module in model.named_modules()}
    return {name: (*facts, total) for (name, facts), total in zip(found.items(), totals, strict=True)} | modes


@contextmanager
def _preserved_state(device: torch.device) -> Iterator[None]:
    """Restores generators, threads and torch's modes at the end of the block."""
    python, of_numpy, threads = random.getstate(), np.random.get_state(), torch.get_num_threads()
    dtype, deterministic = torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    with preserve_generators(device), torch.set_grad_enabled(torch.is_grad_enabled()):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(of_numpy)
            torch.set_num_threads(threads)
            torch.set_default_dtype(dtype)
            torch.use_deterministic_algorithms(deterministic, warn_only=warns)
