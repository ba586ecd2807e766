"""Inference engine of one model, which packs weights on first use and again after they change.

The model is never modified. The engine stores copies of the weights with a version stamp of every parameter (identity,
version counter, address, dtype) and rebuilds them if the stamp differs. Fused optimizers do not increment the version
counter, so every backward pass changes the stamp too, and the modules run while gradients exist. Changes through
`.data` cannot be detected: attach a new engine (`inference.ready.place`) after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ...core.errors import InputError
from ...data.batch import Batch
from ...models.device import keep_few_shapes
from ...models.model import Model
from ...models.transformer import Encoded
from .adapted import shared_kernels
from .choice import float_kernels, int8_kernels, step_kernels
from .encoder import InferenceEncoder
from .graphs import Graphs, why_no_graphs
from .int8 import ActivationRange, CalibrationObserver, Int8Loss, WeightKey
from .steps import InferenceSteps


class Engine:
    """Encodes packed batches for the model that it is attached to.

    int8: use int8, which requires `calibrate`; else the model's compute_dtype. loss: int8 quantization error, if known.
    """

    def __init__(self, int8: bool = False) -> None:
        keep_few_shapes()
        self.int8 = int8
        self.loss: Int8Loss | None = None
        self._ranges: dict[WeightKey, ActivationRange] = {}
        self._calibrated: tuple[Any, ...] = ()  # stamp of the weights at calibration
        self._fixed: InferenceEncoder | None = None
        self._graphs: Graphs | None = None  # CUDA graphs for small batches
        self._stamp: tuple[Any, ...] = ()
        self._steps: dict[bool, tuple[tuple[Any, ...], InferenceSteps]] = {}  # for one row or several, with stamps
        self._backward_passes = 0  # since the engine was created
        self._watched: list[RemovableHandle] = []
        self._lock = Lock()  # threads that share a model pack the weights once

    def encode(self, model: Model, batch: Batch, hidden_states: bool = False, row_length: int | None = None) -> Encoded:
        """Encode a packed batch: `.hidden` [tokens, hidden], and all hidden states on request.

        Raises InputError for int8 without calibration, or if the weights changed since then.
        """
        parameters = _parameters_of(model.encoder)
        if not batch.num_tokens or (any(map(_may_change, parameters)) and not self.int8):
            # No tokens, or weights whose copies could be stale.
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

    def steps(self, model: Model, num_rows: int) -> InferenceSteps | None:
        """Return the decoding step with the current weights; None if only the modules are safe to use.

        num_rows: sequences decoded in parallel. Steps run in the model's compute_dtype, also with int8.
        """
        parameters = _parameters_of(model)
        if any(map(_may_change, parameters)):
            return None
        is_one, stamp = num_rows == 1, self._stamp_of(model, parameters)
        with self._lock:
            known, steps = self._steps.get(is_one, ((), None))
            if steps is None or known != stamp:
                self._watch(model)
                kernels = step_kernels(model.compute_dtype, parameters[0].device, num_rows)
                steps = InferenceSteps(model, shared_kernels(kernels, model))
                self._steps[is_one] = stamp, steps
        return steps

    def calibrate(self, model: Model, batches: Iterable[Batch]) -> None:
        """Record the activation ranges of all matrix products in float32 on batches of typical texts."""
        kernels = CalibrationObserver()
        recording = InferenceEncoder(model.encoder, kernels)
        with torch.inference_mode():
            for batch in batches:
                model.check(batch)
                recording(batch)
        with self._lock:
            self._ranges, self._fixed = kernels.ranges, None
            self._watch(model)
            self._calibrated = self._stamp_of(model, _parameters_of(model.encoder))

    def _ready(self, model: Model, parameters: Sequence[Tensor]) -> InferenceEncoder:
        """Return the inference encoder for the current weights."""
        stamp = self._stamp_of(model, parameters)
        with self._lock:
            if self._fixed is None or stamp != self._stamp:
                device = parameters[0].device
                if self.int8 and stamp != self._calibrated:
                    raise InputError("int8 requires calibration with the current weights: pass texts to calibrate on.")
                self._watch(model)
                kernels = (
                    int8_kernels(self._ranges, device)
                    if self.int8
                    else shared_kernels(float_kernels(model.compute_dtype, device), model)
                )
                self._fixed, self._stamp = InferenceEncoder(model.encoder, kernels), stamp
                replays = why_no_graphs(self._fixed, device) is None
                self._graphs = Graphs(self._fixed) if replays else None
            return self._fixed

    def _stamp_of(self, model: Model, parameters: Sequence[Tensor]) -> tuple[Any, ...]:
        state = ((id(one), one._version, one.data_ptr(), one.dtype, one.requires_grad) for one in parameters)
        return (model.compute_dtype, self._backward_passes, *state)

    def _watch(self, model: Model) -> None:
        """Count every backward pass that reaches a parameter of the model."""
        for handle in self._watched:
            handle.remove()
        reference = ref(self)  # a parameter may outlive the engine

        def count_backward(_: Tensor) -> None:
            engine = reference()
            if engine is not None:
                engine._backward_passes += 1

        self._watched = [
            one.register_post_accumulate_grad_hook(count_backward) for one in model.parameters() if one.requires_grad
        ]

    def __deepcopy__(self, memo: dict[int, Any]) -> Engine:
        """Return a new engine: a copied model packs its own weights."""
        return Engine(self.int8)

    def __reduce__(self) -> tuple[type[Engine], tuple[bool]]:
        """Pickle only the precision: an unpickled model packs its own weights."""
        return Engine, (self.int8,)


def _parameters_of(module: nn.Module) -> list[Tensor]:
    """Return all parameters, tied ones repeatedly; five times as fast as `module.parameters()`, which builds names."""
    parts = [module]
    for part in parts:  # grows during iteration
        parts += [child for child in part._modules.values() if child is not None]
    return [one for part in parts for one in part._parameters.values() if one is not None]


def _may_change(parameter: Tensor) -> bool:
    """Return whether a parameter can change undetected: no version counter, or an optimizer step is pending."""
    return parameter.is_inference() or parameter.grad is not None
