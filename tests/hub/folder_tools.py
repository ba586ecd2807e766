"""Small model folders for the tests of the hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from maskwright.hub.family import family_named
from maskwright.models.build import build
from maskwright.models.config import ModelConfig

CONFIG = ModelConfig(
    vocab_size=61,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=20,
)


def family_config(family: str, **changes: Any) -> ModelConfig:
    """The configuration of a config.json that has only a model_type, with changes as far as the family has them."""
    table = family_named(family)
    values = table.to_ours({}) | changes
    if (values.get("pad_token_id") or 0) >= values["vocab_size"]:
        values["pad_token_id"] = 3
    return ModelConfig(**table.to_ours(table.to_theirs(ModelConfig(**values))))


IDS = torch.tensor([[5, 6, 7, 8, 9], [10, 11, 12, 13, 14]])


def make(head=None, config=CONFIG, **options):
    """A model in evaluation mode whose every parameter is drawn at a spread of 0.3."""
    model = build(config, head, **options).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3, generator=generator)
    return model


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    """The stored tensors of a folder."""
    return load_file(folder / "model.safetensors")


def foreign(folder: Path, change=lambda stored: stored, settings=None) -> Path:
    """Turn a folder of ours into a foreign one: no manifest, its tensors and config.json changed."""
    for name in ("manifest.json", "maskwright.json", "README.md"):
        (folder / name).unlink(missing_ok=True)
    save_file(change(tensors(folder)), folder / "model.safetensors", metadata={"format": "pt"})
    if settings:
        config = json.loads((folder / "config.json").read_text())
        config |= settings
        (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v != "absent"}))
    return folder
