"""What a module takes and gives while a model runs, in the order of its calls: the model itself stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


@contextmanager
def calls_of(modules: Iterable[nn.Module]) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """A list that fills with (input, output) of every call of `modules` inside the block: float [tokens, size] each.

    A layer whose weights are shared is called once for each depth, and so is here as often.
    """
    found: list[tuple[Tensor, Tensor]] = []

    def note(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        found.append((inputs[0].detach(), output.detach()))

    handles = [module.register_forward_hook(note) for module in dict.fromkeys(modules)]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
