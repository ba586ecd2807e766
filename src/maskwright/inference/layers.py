"""Which layers make a vector.

Layer 0 is the embeddings, layers 1 to n are those of the encoder. The named choices are those of Devlin et
al. 2019, table 7 (feature-based approach).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.errors import ConfigError
from ..core.registry import unknown_name

NAMED_LAYERS = ("embeddings", "last", "second-to-last", "sum-all", "sum-last-4", "concat-last-4")
POOLINGS = ("cls", "mean", "max", "state", "none")


@dataclass(frozen=True)
class LayerChoice:
    """Layers by number, and what is done with them: "concat" or "sum" (of one layer both are that layer)."""

    numbers: tuple[int, ...]
    combine: str

    def size(self, hidden_size: int) -> int:
        """Length of a token's vector."""
        return hidden_size * (len(self.numbers) if self.combine == "concat" else 1)

    def apply(self, hidden_states: Sequence[Tensor]) -> Tensor:
        """hidden_states: layers + 1 tensors, float [tokens, hidden]. Returns float32 [tokens, size]."""
        chosen = [hidden_states[number].float() for number in self.numbers]
        return torch.cat(chosen, dim=-1) if self.combine == "concat" else torch.stack(chosen).sum(dim=0)


def choose_layers(layers: str | int | Sequence[int], num_layers: int) -> LayerChoice:
    """The layers that a name or numbers mean in an encoder of `num_layers`.

    A name of NAMED_LAYERS ("sum-all" leaves the embeddings out), a number, or several ("9,10,11,12" or a
    list), which are concatenated; negative numbers count from the last. Raises ConfigError.
    """
    last = num_layers
    if isinstance(layers, str) and layers in NAMED_LAYERS:
        if layers.endswith("-4") and num_layers < 4:
            raise ConfigError(f"layers '{layers}' needs 4 layers and this model has {num_layers}: name them by number.")
        return {
            "embeddings": LayerChoice((0,), "concat"),
            "last": LayerChoice((last,), "concat"),
            "second-to-last": LayerChoice((last - 1,), "concat"),
            "sum-all": LayerChoice(tuple(range(1, last + 1)), "sum"),
            "sum-last-4": LayerChoice(tuple(range(last - 3, last + 1)), "sum"),
            "concat-last-4": LayerChoice(tuple(range(last - 3, last + 1)), "concat"),
        }[layers]
    numbers = [number + last + 1 if number < 0 else number for number in _numbers(layers)]
    wrong = [number for number in numbers if not 0 <= number <= last]
    if wrong or not numbers:
        raise ConfigError(f"layers {layers!r} names no layer: this model has 0 (embeddings) to {last}.")
    return LayerChoice(tuple(numbers), "concat")


def _numbers(layers: str | int | Sequence[int]) -> list[int]:
    if isinstance(layers, int):
        return [layers]
    parts = layers.split(",") if isinstance(layers, str) else layers
    try:
        return [int(part) for part in parts]
    except (TypeError, ValueError):
        raise ConfigError(unknown_name("choice of layers", str(layers), [*NAMED_LAYERS, "or numbers"])) from None


def check_pooling(pooling: str) -> str:
    """`pooling`, if it is one of POOLINGS. Raises ConfigError."""
    if pooling not in POOLINGS:
        raise ConfigError(unknown_name("pooling", str(pooling), POOLINGS))
    return pooling
