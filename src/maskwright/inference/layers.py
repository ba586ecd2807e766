"""Selection and combination of layers for embeddings.

Layer 0 is the embeddings, layers 1 to n those of the encoder. The named selections are from Devlin et al. 2019, table 7
(feature-based approach).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.errors import ConfigError
from ..core.registry import unknown_name
from ..models.pooling import POOLINGS

NAMED_LAYERS = ("embeddings", "last", "second-to-last", "sum-all", "sum-last-4", "concat-last-4")
ALONE = ("state", "none")  # poolings that are not joined with others


@dataclass(frozen=True)
class LayerChoice:
    """Layer numbers and how they are combined: "concat" or "sum"."""

    numbers: tuple[int, ...]
    combine: str

    def size(self, hidden_size: int) -> int:
        """Return the dimensions of a token embedding."""
        return hidden_size * (len(self.numbers) if self.combine == "concat" else 1)

    def apply(self, hidden_states: Sequence[Tensor]) -> Tensor:
        """Combine hidden states, layers + 1 tensors float [tokens, hidden], to float32 [tokens, size]."""
        chosen = [hidden_states[number].float() for number in self.numbers]
        return torch.cat(chosen, dim=-1) if self.combine == "concat" else torch.stack(chosen).sum(dim=0)


def choose_layers(layers: str | int | Sequence[int], num_layers: int) -> LayerChoice:
    """Return the layers of a name or of numbers in an encoder with `num_layers` layers.

    layers: a name of NAMED_LAYERS ("sum-all" excludes the embeddings), a number, or several ("9,10,11,12" or a list),
    which are concatenated; negative numbers count from the last. Raises ConfigError.
    """
    last = num_layers
    if isinstance(layers, str) and layers in NAMED_LAYERS:
        if layers.endswith("-4") and num_layers < 4:
            raise ConfigError(
                f"layers '{layers}' requires 4 layers, but this model has {num_layers}: use layer numbers."
            )
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
        raise ConfigError(f"layers {layers!r} is out of range: this model has layers 0 (embeddings) to {last}.")
    return LayerChoice(tuple(numbers), "concat")


def _numbers(layers: str | int | Sequence[int]) -> list[int]:
    if isinstance(layers, int):
        return [layers]
    parts = layers.split(",") if isinstance(layers, str) else layers
    try:
        return [int(part) for part in parts]
    except (TypeError, ValueError):
        raise ConfigError(unknown_name("layer selection", str(layers), [*NAMED_LAYERS, "or numbers"])) from None


def check_pooling(pooling: str) -> str:
    """Return `pooling` if it is of `models.pooling.pool`, "state" or "none"; raises ConfigError otherwise."""
    for name in [pooling] if pooling in ALONE else str(pooling).split("+"):
        if name not in (*POOLINGS, *ALONE) or (name in ALONE and name != pooling):
            raise ConfigError(unknown_name("pooling", name, (*POOLINGS, *ALONE)))
    return pooling
