"""Inference engine of one model, which packs weights on first use and again after they change.

The model is never modified. The engine stores copies of the weights with a stamp of every parameter (`weights.Weights`)
and rebuilds them if the stamp differs. Fused optimizers do not increment the version counter, so every backward pass
changes the stamp too, and the modules run while gradients exist. Changes through `.data` cannot be detected: attach a
new engine (`inference.ready.place`) after them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from operator import attrgetter, is_
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
from ...models.transformer import Encoded, Layer
from .choice import float_kernels, int8_kernels, step_kernels
from .encoder import InferenceEncoder, InferenceSteps
from .graphs import Graphs, why_no_graphs
from .int8 import ActivationRange, CalibrationObserver, Int8Loss, WeightKey, weight_key
from .layers import shared_kernels

# -- Reports whether the weights of a module have changed, at a cost that every request can afford -------------------


VERSION, GRADIENT = attrgetter("_version"), attrgetter("grad")
STATE = attrgetter("_version", "dtype", "requires_grad")


class Weights:
    """The parameters of a module and of all modules in it, tied ones repeatedly. Does not keep the module itself."""

    def __init__(self, module: nn.Module) -> None:
        parts = [module]
        for part in parts:  # grows during iteration
            parts += [child for child in part._modules.values() if child is not None]
        self._tables: list[dict[str, Any]] = [table for part in parts for table in (part._modules, part._parameters)]
        self._entries = self._read()
        self.tensors = [one for one in self._entries if isinstance(one, Tensor)]

    def are_those_of(self, module: nn.Module) -> bool:
        """Return whether the module consists of these parameters and modules, by identity."""
        if module._modules is not self._tables[0]:
            return False
        found = self._read()
        return len(found) == len(self._entries) and all(map(is_, found, self._entries))

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.tensors[0].device

    @property
    def may_change(self) -> bool:
        """Whether they can change undetected: no version counter, or an optimizer step is pending."""
        return any(map(Tensor.is_inference, self.tensors)) or any(
            gradient is not None for gradient in map(GRADIENT, self.tensors)
        )

    def versions(self) -> list[int]:
        """Return the version counter of every parameter, which counts changes in place."""
        return list(map(VERSION, self.tensors))

    def stamp(self) -> tuple[Any, ...]:
        """Return identity, address, version counter, dtype and requires_grad of every parameter."""
        tensors = self.tensors
        return list(map(id, tensors)), list(map(Tensor.data_ptr, tensors)), list(map(STATE, tensors))

    def _read(self) -> list[Any]:
        return list(chain.from_iterable(map(dict.values, self._tables)))


class Engine:
    """Encodes packed batches for the model that it is attached to.

    int8: use int8, which requires `calibrate`; else the model's compute_dtype. loss: int8 quantization error, if known;
    is_private: nobody replaces parameters or modules of the model, so that only changes in place are looked for.
    """

    def __init__(self, int8: bool = False) -> None:
        keep_few_shapes()
        self.int8 = int8
        self.is_private = False
        self.loss: Int8Loss | None = None
        self._ranges: dict[WeightKey, ActivationRange] = {}
        self._calibrated: tuple[Any, ...] = ()  # stamp of the weights at calibration
        self._fixed: InferenceEncoder | None = None
        self._graphs: Graphs | None = None  # CUDA graphs for small batches
        self._stamp: tuple[Any, ...] = ()
        self._seen: tuple[Any, ...] = ()  # state of a private model at the last full check
        self._weights: dict[bool, Weights] = {}  # of the whole model, or of its encoder
        self._steps: dict[bool, tuple[tuple[Any, ...], InferenceSteps]] = {}  # for one row or several, with stamps
        self._backward_passes = 0  # since the engine was created
        self._watched: list[RemovableHandle] = []
        self._lock = Lock()  # threads that share a model pack the weights once

    def encode(self, model: Model, batch: Batch, hidden_states: bool = False, row_length: int | None = None) -> Encoded:
        """Encode a packed batch: `.hidden` [tokens, hidden], and all hidden states on request.

        Raises InputError for int8 without calibration, or if the weights changed since then.
        """
        fixed = self._current(model) if batch.num_tokens else None
        if fixed is None:
            encoded: Encoded = model.encoder(
                batch, model.compute_dtype, hidden_states=hidden_states, row_length=row_length
            )
            return encoded
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
        weights = self._weights_of(model)
        if weights.may_change:
            return None
        is_one, stamp = num_rows == 1, self._stamp_of(model, weights)
        with self._lock:
            known, steps = self._steps.get(is_one, ((), None))
            if steps is None or known != stamp:
                self._watch(model)
                kernels = step_kernels(model.compute_dtype, weights.device, num_rows)
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
                recording(model.with_global_tokens(batch))
        for layer in model.encoder.layers:
            if isinstance(layer, Layer) and (other := layer.attention.global_qkv) is not None:  # of the same input
                kernels.ranges[weight_key(other.weight)] = kernels.ranges[weight_key(layer.attention.qkv.weight)]
        with self._lock:
            self._ranges, self._fixed = kernels.ranges, None
            self._watch(model)
            self._calibrated = self._stamp_of(model, self._weights_of(model.encoder))

    def _current(self, model: Model) -> InferenceEncoder | None:
        """Return the inference encoder for the current weights; None if only the modules are safe to use."""
        fixed, seen = self._fixed, self._seen
        if self.is_private and fixed is not None and seen == self._state_of(model):
            return fixed
        weights = self._weights_of(model.encoder)
        if not self.int8 and weights.may_change:
            return None
        fixed = self._ready(model, weights)
        if self.is_private:
            self._seen = self._state_of(model)
        return fixed

    def _ready(self, model: Model, weights: Weights) -> InferenceEncoder:
        """Return the inference encoder for the current weights."""
        stamp = self._stamp_of(model, weights)
        with self._lock:
            if self._fixed is None or stamp != self._stamp:
                device = weights.device
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

    def _weights_of(self, module: nn.Module) -> Weights:
        """Return the parameters that a module has now."""
        is_model = isinstance(module, Model)
        known = self._weights.get(is_model)
        if known is None or not known.are_those_of(module):
            known = self._weights[is_model] = Weights(module)
        return known

    def _state_of(self, model: Model) -> tuple[Any, ...]:
        """Return the part of the stamp that changes in a private model, whose parameters are always the same."""
        return (model.compute_dtype, self._backward_passes, self._weights[False].versions())

    def _stamp_of(self, model: Model, weights: Weights) -> tuple[Any, ...]:
        return (model.compute_dtype, self._backward_passes, weights.stamp())

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
