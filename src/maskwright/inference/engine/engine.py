"""The engine of one model: weights packed when they are first needed, and again whenever they have changed.

It never changes the model. What it keeps are copies of the weights as they were, with a stamp of every parameter
(identity, version, place in memory, dtype); a run with another stamp makes new ones. Fused optimisers change weights
without counting a version, so they are made to. A parameter changed through `.data` leaves no trace at all: take a new
engine (`inference.ready.place`) after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from ...core.errors import InputError
from ...data.batch import Batch
from ...models.device import keep_few_shapes
from ...models.model import Model
from ...models.transformer import Encoded
from .choice import float_kit, int8_kit, step_kit
from .encoder import FixedEncoder
from .graphs import Graphs, why_no_graphs
from .int8 import Int8Loss, Place, Range, RecordingKit
from .steps import FixedSteps


class Engine:
    """Encodes packs for the model that it is attached to.

    int8: in int8, after `calibrate`; else in the model's compute_dtype. loss: what int8 costs, where that was measured.
    """

    def __init__(self, int8: bool = False) -> None:
        _count_fused_steps()
        keep_few_shapes()
        self.int8 = int8
        self.loss: Int8Loss | None = None
        self._ranges: dict[Place, Range] = {}
        self._calibrated: tuple[Any, ...] = ()  # the stamp of the weights then
        self._fixed: FixedEncoder | None = None
        self._graphs: Graphs | None = None  # of the fixed encoder, where small packs are replayed
        self._stamp: tuple[Any, ...] = ()
        self._steps: dict[bool, tuple[tuple[Any, ...], FixedSteps]] = {}  # for one row or several, with their stamp
        self._lock = Lock()  # two threads may use one model: the weights are packed once

    def encode(self, model: Model, batch: Batch, hidden_states: bool = False, row_length: int | None = None) -> Encoded:
        """`.hidden` [tokens, hidden] of a pack, and every layer's if asked: what the modules give.

        Raises InputError for int8 without calibration, or with other weights than those of it.
        """
        parameters = _parameters_of(model.encoder)
        if not batch.num_tokens or any(parameter.is_inference() for parameter in parameters):
            # Nothing to multiply; or weights made under inference mode, which keep no version: copies could be stale.
            encoded: Encoded = model.encoder(
                batch, model.compute_dtype, hidden_states=hidden_states, row_length=row_length
            )
            return encoded
        fixed = self._ready(model, parameters)
        graphs = self._graphs
        if graphs is not None and graphs.encoder is fixed and not hidden_states:
            small = graphs.run(batch)
            if small is not None:
                return Encoded(small)
        return fixed(batch, hidden_states, row_length)

    def steps(self, model: Model, num_rows: int) -> FixedSteps | None:
        """What reads one more token of each row, with the weights as they are now; None where only modules can tell.

        num_rows: that grow side by side. In int8 there is no such thing: steps are in the model's compute_dtype.
        """
        parameters = _parameters_of(model)
        if any(parameter.is_inference() for parameter in parameters):
            return None
        is_one, stamp = num_rows == 1, _stamp_of(model, parameters)
        with self._lock:
            known, steps = self._steps.get(is_one, ((), None))
            if steps is None or known != stamp:
                kit = step_kit(model.compute_dtype, parameters[0].device, num_rows)
                steps = FixedSteps(model, kit)
                self._steps[is_one] = stamp, steps
        return steps

    def calibrate(self, model: Model, batches: Iterable[Batch]) -> None:
        """Find the ranges of all numbers that enter a product, in float32, on packs of typical texts."""
        kit = RecordingKit()
        recording = FixedEncoder(model.encoder, kit)
        with torch.inference_mode():
            for batch in batches:
                model.check(batch)
                recording(batch)
        with self._lock:
            self._ranges, self._fixed = kit.ranges, None
            self._calibrated = _stamp_of(model, _parameters_of(model.encoder))

    def _ready(self, model: Model, parameters: Sequence[Tensor]) -> FixedEncoder:
        """The fixed encoder of the model's weights as they are now."""
        stamp = _stamp_of(model, parameters)
        with self._lock:
            if self._fixed is None or stamp != self._stamp:
                device = parameters[0].device
                if self.int8 and stamp != self._calibrated:
                    raise InputError(
                        "int8 needs ranges from typical texts, found with the weights as they are now: give texts to "
                        "calibrate on."
                    )
                kit = int8_kit(self._ranges, device) if self.int8 else float_kit(model.compute_dtype, device)
                self._fixed, self._stamp = FixedEncoder(model.encoder, kit), stamp
                replays = why_no_graphs(self._fixed, device) is None
                self._graphs = Graphs(self._fixed) if replays else None
            return self._fixed

    def __deepcopy__(self, memo: dict[int, Any]) -> Engine:
        """A copied model packs its own weights."""
        return Engine(self.int8)

    def __reduce__(self) -> tuple[type[Engine], tuple[bool]]:
        """So does one that is read from a file."""
        return Engine, (self.int8,)


def _parameters_of(module: nn.Module) -> list[Tensor]:
    """All parameters, a shared one as often as it occurs. `module.parameters()` makes names that nobody reads: five
    times as long, for every batch."""
    parts = [module]
    for part in parts:  # grows while it is read
        parts += [child for child in part._modules.values() if child is not None]
    return [one for part in parts for one in part._parameters.values() if one is not None]


def _stamp_of(model: Model, parameters: Sequence[Tensor]) -> tuple[Any, ...]:
    return (model.compute_dtype, *((id(one), one._version, one.data_ptr(), one.dtype) for one in parameters))


@cache
def _count_fused_steps() -> None:
    """From now on every step of a fused optimiser counts as a change of its parameters."""

    def count(optimizer: Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            if group.get("fused"):
                increment_version(group["params"])

    register_optimizer_step_post_hook(count)
