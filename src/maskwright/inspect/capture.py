"""Captures inputs and outputs of modules in call order with forward hooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


@contextmanager
def calls_of(modules: Iterable[nn.Module]) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Collect (input, output) of every call of `modules` within the block: float [tokens, size] each.

    A layer with shared weights is called and recorded once per depth.
    """
    found: list[tuple[Tensor, Tensor]] = []

    def record(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        found.append((inputs[0].detach(), output.detach()))

    handles = [module.register_forward_hook(record) for module in dict.fromkeys(modules)]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
