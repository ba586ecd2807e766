"""Parameter count of a configuration."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .build import make_model
from .config import ModelConfig


def parameter_count(config: ModelConfig, head: str | None = None, labels: Sequence[str] | int | None = None) -> int:
    """Number of parameters of `build(config, head, labels=labels)`, computed without allocating memory."""
    with torch.device("meta"):
        return make_model(config, head, labels=labels).num_parameters
