"""Small recurrent models with weights large enough that tokens matter."""

from __future__ import annotations

from typing import Any

import torch

from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.model import Model
from maskwright.models.presets import preset

SIZES = {"vocab_size": 60, "hidden_size": 12, "num_hidden_layers": 2}


def network(name: str = "lstm-small", **changes: Any) -> ModelConfig:
    """A preset in small."""
    return preset(name, **{**SIZES, **changes})


def model(name: str = "lstm-small", head: str | None = "clm", seed: int = 0, **changes: Any) -> Model:
    """A model of a preset in small, in evaluation mode."""
    made = build(network(name, **changes), head, seed=seed).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(0, 0.4, generator=generator)
    return made
