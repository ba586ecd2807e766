"""Reports whether the weights of a module have changed, at a cost that every request can afford."""

from __future__ import annotations

from itertools import chain
from operator import attrgetter, is_
from typing import Any

import torch
from torch import Tensor, nn

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
