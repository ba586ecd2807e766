"""Sizes of a model that does not exist yet."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .config import ModelConfig
from .model import make_model


def parameter_count(config: ModelConfig, head: str | None = None, labels: Sequence[str] | int | None = None) -> int:
    """Parameters of `build(config, head, labels=labels)`, counted without allocating any."""
    with torch.device("meta"):
        return make_model(config, head, labels=labels).num_parameters
