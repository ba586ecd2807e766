"""The engine of one model: weights packed when they are first needed, and again whenever they have changed.

It never changes the model. What it keeps are copies of the weights as they were, with a stamp of every parameter
(identity, version, place in memory, dtype); a run with another stamp makes new ones. Fused optimisers change weights
without counting a version, so they are made to. A parameter changed through `.data` leaves no trace at all: take a new
engine (`inference.ready.place`) after that.
"""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any

import torch
from torch.autograd.graph import increment_version
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from ...data.batch import Batch
from ...models.model import Model
from ...models.transformer import Encoded
from .choice import Choice, choose
from .encoder import FixedEncoder


class Engine:
    """Encodes packs for the model that it is attached to, in that model's compute_dtype.

    choice: which products run it, and why; None before the first pack.
    """

    def __init__(self) -> None:
        _count_fused_steps()
        self.choice: Choice | None = None
        self._fixed: FixedEncoder | None = None
        self._stamp: tuple[Any, ...] = ()
        self._lock = Lock()  # two threads may use one model: the weights are packed once

    def encode(self, model: Model, batch: Batch, hidden_states: bool = False, row_length: int | None = None) -> Encoded:
        """`.hidden` [tokens, hidden] of a pack, and every layer's if asked: what the modules give."""
        parameters = list(model.encoder.parameters())
        if not batch.num_tokens or any(parameter.is_inference() for parameter in parameters):
            # Nothing to multiply; or weights made under inference mode, which keep no version: copies could be stale.
            encoded: Encoded = model.encoder(
                batch, model.compute_dtype, hidden_states=hidden_states, row_length=row_length
            )
            return encoded
        return self._ready(model, parameters)(batch, hidden_states, row_length)

    def _ready(self, model: Model, parameters: list[torch.Tensor]) -> FixedEncoder:
        """The fixed encoder of the model's weights as they are now."""
        stamp = (model.compute_dtype, *((id(one), one._version, one.data_ptr(), one.dtype) for one in parameters))
        with self._lock:
            if self._fixed is None or stamp != self._stamp:
                self.choice = choose(model.compute_dtype, parameters[0].device)
                self._fixed = FixedEncoder(model.encoder, model.compute_dtype, self.choice.make)
                self._stamp = stamp
            return self._fixed

    def __deepcopy__(self, memo: dict[int, Any]) -> Engine:
        """A copied model packs its own weights."""
        return Engine()

    def __reduce__(self) -> tuple[type[Engine], tuple[()]]:
        """So does one that is read from a file."""
        return Engine, ()


@cache
def _count_fused_steps() -> None:
    """From now on every step of a fused optimiser counts as a change of its parameters."""

    def count(optimizer: Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            if group.get("fused"):
                increment_version(group["params"])

    register_optimizer_step_post_hook(count)
