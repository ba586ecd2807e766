"""Published sizes by name (Devlin et al. 2018; Turc et al. 2019 for the small ones)."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..core import config as settings
from ..core.errors import ConfigError
from ..core.registry import unknown_name
from .config import ModelConfig


def _bert(layers: int, hidden: int) -> ModelConfig:
    """BERT's proportions: heads of 64, a feed-forward network four times as wide."""
    return ModelConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
    )


PRESETS: dict[str, ModelConfig] = {
    "bert-tiny": _bert(2, 128),
    "bert-mini": _bert(4, 256),
    "bert-small": _bert(4, 512),
    "bert-medium": _bert(8, 512),
    "bert-base": _bert(12, 768),
    "bert-large": _bert(24, 1024),
}


def preset(name: str, **overrides: Any) -> ModelConfig:
    """The configuration called `name`, with fields replaced: preset("bert-base", vocab_size=30522).

    Raises ConfigError for an unknown name or field, naming the nearest, and for a value out of range.
    """
    if name not in PRESETS:
        raise ConfigError(unknown_name("preset", name, PRESETS))
    values = dataclasses.asdict(PRESETS[name]) | overrides
    return settings.from_dict(ModelConfig, values, where=f"the overrides of preset {name}")
