"""Maskwright's native format, for architectures that no published family describes: same names on both sides.

transformers rejects such a folder by its model type.
"""

from __future__ import annotations

from dataclasses import fields

from ...core.registry import TABLE
from ...models.config import ModelConfig
from ..family import Family


def family() -> Family:
    """Returns the native family, with every setting and every head under its own name."""
    heads = [name for name in TABLE["head"] if name != "regression"]
    return Family(
        model_type="maskwright",
        title="Maskwright's own",
        prefix="",
        classes={"MaskwrightModel": None} | {f"MaskwrightModel:{name}": name for name in heads},
        names={field.name: field.name for field in fields(ModelConfig)},
        nullable=[field.name for field in fields(ModelConfig) if "None" in str(field.type)],
        understood={"quantization_config": (None,)},
        encoder={},
        heads={},
    )
